#include "retrieval/contriever_embedder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/atomic_file.h"
#include "retrieval/contriever_directory.h"
#include "tests/base/largest_difference.h"
#include "tests/base/scratch_directory.h"
#include "tests/base/status_matchers.h"
#include "tests/retrieval/plain_bert.h"
#include "tests/retrieval/tiny_bert.h"

namespace braid {
namespace contriever_embedder_test {

constexpr double kTolerance = 1e-5;
using Vectors = std::vector<std::vector<float>>;

absl::StatusOr<Vectors> EmbedAll(const Embedder& embedder, const std::vector<std::string>& texts) {
  const auto d = static_cast<size_t>(embedder.dimension());
  const std::vector<std::string_view> views(texts.begin(), texts.end());
  std::vector<float> flat(texts.size() * d);
  if (absl::Status status = embedder.Embed(views, flat); !status.ok()) return status;
  Vectors vectors;
  for (size_t i = 0; i < texts.size(); ++i) {
    vectors.emplace_back(flat.begin() + static_cast<int64_t>(i * d),
                         flat.begin() + static_cast<int64_t>((i + 1) * d));
  }
  return vectors;
}

// Texts from one piece to more than the model reads.
std::vector<std::string> MixedTexts(int count, int max_words, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<std::string> texts;
  for (int i = 0; i < count; ++i) {
    texts.push_back(
        RandomWords(1 + static_cast<int>(random() % static_cast<uint32_t>(max_words)), &random));
  }
  return texts;
}

class ContrieverEmbedderTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { SetContrieverThreads(2); }

  std::filesystem::path directory() const { return scratch_.path(); }
  absl::StatusOr<std::unique_ptr<ContrieverEmbedder>> Load(ContrieverOptions options = {}) const {
    options.directory = directory();
    return ContrieverEmbedder::Load(options);
  }
  // Returns the fingerprint of a new tiny model.
  std::unique_ptr<ContrieverEmbedder> Tiny(const TinyBert& bert = {},
                                           const ContrieverOptions& options = {}) const {
    for (const auto& entry : std::filesystem::directory_iterator(directory())) {
      std::filesystem::remove_all(entry.path());
    }
    WriteTinyBert(bert, directory());
    auto embedder = Load(options);
    EXPECT_TRUE(embedder.ok()) << embedder.status();
    return embedder.ok() ? *std::move(embedder) : nullptr;
  }

  ScratchDirectory scratch_;
};

// Vectors of the Python package sentence-transformers, written by tests/peers/sentence_golden.py.
TEST_F(ContrieverEmbedderTest, VectorsAreThoseOfSentenceTransformers) {
  const std::filesystem::path golden = BRAID_TESTS_DIR "/retrieval/golden";
  const auto vectors = nlohmann::json::parse(*ReadFile(golden / "vectors.json"));
  std::filesystem::copy(golden / "model", directory(), std::filesystem::copy_options::recursive);
  for (const char* pooling : {"cls", "lasttoken", "mean"}) {
    PutFile(directory() / "1_Pooling" / "config.json",
            absl::StrCat(R"({"embedding_dimension": 16, "pooling_mode": ")", pooling,
                         R"(", "include_prompt": true})"));
    ASSERT_OK_AND_ASSIGN(const auto embedder, Load());
    ASSERT_OK_AND_ASSIGN(const Vectors ours, EmbedAll(*embedder, vectors["texts"]));
    const Vectors theirs = vectors[pooling];
    ASSERT_EQ(ours.size(), theirs.size());
    for (size_t i = 0; i < ours.size(); ++i) {
      EXPECT_LE(LargestDifference(ours[i], theirs[i]), kTolerance) << pooling << " " << i;
    }
  }
}

TEST_F(ContrieverEmbedderTest, EqualsTheLoopsInDoublePrecision) {
  struct Shape {
    int32_t hidden, heads, layers, intermediate;
  };
  for (const Shape& shape : {Shape{24, 3, 2, 40}, Shape{64, 4, 3, 96}, Shape{60, 12, 1, 7},
                             Shape{5, 1, 2, 3}, Shape{36, 36, 2, 50}}) {
    TinyBert bert;
    bert.config.hidden_size = shape.hidden;
    bert.config.num_attention_heads = shape.heads;
    bert.config.num_hidden_layers = shape.layers;
    bert.config.intermediate_size = shape.intermediate;
    bert.seed = static_cast<uint32_t>(shape.hidden);
    const auto embedder = Tiny(bert);
    ASSERT_OK_AND_ASSIGN(const auto files, ContrieverDirectory::Open(directory(), 0));
    const PlainBert plain(files.config, files.weights);
    const std::vector<std::string> texts = MixedTexts(12, 14, bert.seed);
    ASSERT_OK_AND_ASSIGN(const Vectors vectors, EmbedAll(*embedder, texts));
    for (size_t i = 0; i < texts.size(); ++i) {
      const auto expected = plain.Embed(files.tokenizer.Encode(texts[i], 32).ids);
      EXPECT_LE(LargestDifference(vectors[i], expected), kTolerance) << shape.hidden << " " << i;
    }
  }
}

// The oracle has no batches, no padding and no mask.
TEST_F(ContrieverEmbedderTest, PoolsAndPrefixesLikeTheLoops) {
  const std::vector<std::string> texts = MixedTexts(20, 14, 9);
  for (const auto& [field, pooling] :
       {std::pair("mean_tokens", Pooling::kMean), std::pair("cls_token", Pooling::kClassify),
        std::pair("lasttoken", Pooling::kLastToken)}) {
    ASSERT_NE(Tiny(), nullptr);
    std::filesystem::create_directories(directory() / "pooling");
    PutFile(directory() / "modules.json",
            R"([{"path": "", "type": "sentence_transformers.models.Transformer"},
                {"path": "pooling", "type": "sentence_transformers.models.Pooling"}])");
    PutFile(directory() / "pooling" / "config.json",
            absl::StrCat("{\"word_embedding_dimension\": 24, \"pooling_mode_", field, "\": true}"));
    ASSERT_OK_AND_ASSIGN(const auto files, ContrieverDirectory::Open(directory(), 0));
    const PlainBert plain(files.config, files.weights);
    for (const std::string prefix : {"", "ab c "}) {
      ASSERT_OK_AND_ASSIGN(const auto embedder, Load({.prefix = prefix}));
      ASSERT_OK_AND_ASSIGN(const Vectors vectors, EmbedAll(*embedder, texts));
      for (size_t i = 0; i < texts.size(); ++i) {
        const auto ids = files.tokenizer.Encode(prefix + texts[i], 32).ids;
        EXPECT_LE(LargestDifference(vectors[i], plain.Embed(ids, pooling)), kTolerance)
            << field << " " << i;
      }
      ASSERT_OK_AND_ASSIGN(const Vectors empty, EmbedAll(*embedder, {" "}));
      EXPECT_EQ(LargestDifference(empty[0], std::vector<float>(24)), 0) << "nothing to embed";
    }
  }
}

TEST_F(ContrieverEmbedderTest, VectorsDoNotDependOnOtherTextsOfTheBatch) {
  const auto embedder = Tiny({}, {.max_batch_tokens = 200});
  const auto mixed = Tiny({}, {.max_batch_tokens = 4096, .bucket_by_length = false});
  const std::vector<std::string> texts = MixedTexts(120, 20, 5);
  ASSERT_OK_AND_ASSIGN(const Vectors together, EmbedAll(*embedder, texts));
  ASSERT_OK_AND_ASSIGN(const Vectors padded, EmbedAll(*mixed, texts));
  for (size_t i = 0; i < texts.size(); ++i) {
    ASSERT_OK_AND_ASSIGN(const Vectors alone, EmbedAll(*embedder, {texts[i]}));
    EXPECT_LE(LargestDifference(alone[0], together[i]), kTolerance) << texts[i];
    EXPECT_LE(LargestDifference(alone[0], padded[i]), kTolerance) << texts[i];
  }
}

TEST_F(ContrieverEmbedderTest, GivesUnitVectorsAndZeroForEmptyTexts) {
  const auto embedder = Tiny();
  ASSERT_OK_AND_ASSIGN(const Vectors vectors,
                       EmbedAll(*embedder, {"abc", "", " \n\u0301", "zz y", "?"}));
  const auto norm = [](const std::vector<float>& v) {
    double squares = 0;
    for (const float x : v) squares += static_cast<double>(x) * x;
    return std::sqrt(squares);
  };
  EXPECT_NEAR(norm(vectors[0]), 1, 1e-6);
  EXPECT_EQ(norm(vectors[1]), 0);
  EXPECT_EQ(norm(vectors[2]), 0);
  EXPECT_NEAR(norm(vectors[3]), 1, 1e-6);
  EXPECT_NEAR(norm(vectors[4]), 1, 1e-6) << "an unknown piece is a piece";
  ASSERT_OK_AND_ASSIGN(const Vectors none, EmbedAll(*embedder, {}));
  std::vector<float> small(7);
  EXPECT_FAILS(embedder->Embed(std::vector<std::string_view>{"a"}, small),
               absl::StatusCode::kInvalidArgument, "7", "24");
}

TEST_F(ContrieverEmbedderTest, CountsTruncatedTextsAndEmbedsTheirBeginning) {
  const auto embedder = Tiny({}, {.max_tokens = 6});
  const std::vector<std::string> texts = {"a b c d", "a b c d e", "a b c d zzz zzz"};
  ASSERT_OK_AND_ASSIGN(const Vectors vectors, EmbedAll(*embedder, texts));
  EXPECT_LE(LargestDifference(vectors[0], vectors[1]), kTolerance);
  EXPECT_LE(LargestDifference(vectors[0], vectors[2]), kTolerance);
  const std::vector<std::string_view> views(texts.begin(), texts.end());
  std::vector<float> room(3 * 24);
  EXPECT_EQ(embedder->EmbedAndCountCut(views, room).value_or(-1), 2);
}

TEST_F(ContrieverEmbedderTest, MayBeUsedFromManyThreads) {
  const auto embedder = Tiny();
  const std::vector<std::string> texts = MixedTexts(40, 20, 9);
  ASSERT_OK_AND_ASSIGN(const Vectors expected, EmbedAll(*embedder, texts));
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&] {
      const auto got = EmbedAll(*embedder, texts);
      ASSERT_TRUE(got.ok()) << got.status();
      for (size_t i = 0; i < texts.size(); ++i) {
        EXPECT_LE(LargestDifference((*got)[i], expected[i]), kTolerance);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(ContrieverEmbedderTest, ReadsPrefixedNamesOldNamesShardsAndHalfPrecision) {
  const std::vector<std::string> texts = MixedTexts(6, 10, 2);
  const auto plain = Tiny();
  ASSERT_OK_AND_ASSIGN(const Vectors expected, EmbedAll(*plain, texts));
  const auto difference = [&](const ContrieverEmbedder& embedder) {
    const auto got = EmbedAll(embedder, texts);
    double largest = got.ok() ? 0 : 1e9;
    for (size_t i = 0; got.ok() && i < texts.size(); ++i) {
      const double one = LargestDifference((*got)[i], expected[i]);
      if (std::isnan(one)) return one;
      largest = std::max(largest, one);
    }
    return largest;
  };
  TinyBert old;
  old.rename = [](const std::string& name) {
    return "bert." + absl::StrReplaceAll(name, {{"LayerNorm.weight", "LayerNorm.gamma"},
                                                {"LayerNorm.bias", "LayerNorm.beta"}});
  };
  old.extra = {{"bert.pooler.dense.weight", DType::kF32, {24, 24}},
               {"cls.predictions.bias", DType::kF32, {60}}};
  const auto renamed = Tiny(old);
  EXPECT_EQ(difference(*renamed), 0);
  EXPECT_EQ(renamed->fingerprint(), plain->fingerprint());

  const auto sharded = Tiny({.max_file_bytes = 4000});
  EXPECT_TRUE(std::filesystem::exists(directory() / "model.safetensors.index.json"));
  EXPECT_EQ(difference(*sharded), 0);
  EXPECT_EQ(sharded->fingerprint(), plain->fingerprint());

  const auto half = Tiny({.dtype = DType::kF16}), brain = Tiny({.dtype = DType::kBF16});
  EXPECT_LE(difference(*half), 0.02);
  EXPECT_LE(difference(*brain), 0.1);
  EXPECT_NE(half->fingerprint(), plain->fingerprint());
}

TEST_F(ContrieverEmbedderTest, FingerprintCoversEverythingThatDeterminesAVector) {
  std::vector<std::string> fingerprints = {Tiny()->fingerprint()};
  EXPECT_EQ(Tiny()->fingerprint(), fingerprints[0]);
  EXPECT_EQ(Tiny({}, {.max_batch_tokens = 7})->fingerprint(), fingerprints[0]);
  EXPECT_EQ(Tiny({}, {.max_tokens = 32})->fingerprint(), fingerprints[0]) << "the default, said";
  fingerprints.push_back(Tiny({.seed = 2})->fingerprint());
  fingerprints.push_back(Tiny({}, {.max_tokens = 16})->fingerprint());
  TinyBert heads;
  heads.config.num_attention_heads = 2;
  fingerprints.push_back(Tiny(heads)->fingerprint());
  TinyBert epsilon;
  epsilon.config.layer_norm_eps = 1e-5;
  fingerprints.push_back(Tiny(epsilon)->fingerprint());
  Tiny();
  PutFile(directory() / "tokenizer_config.json", R"({"do_lower_case": false})");
  ASSERT_OK_AND_ASSIGN(const auto cased, Load());
  fingerprints.push_back(cased->fingerprint());
  Tiny();
  PutFile(directory() / "vocab.txt",
          absl::StrReplaceAll(GetFile(directory() / "vocab.txt"), {{"\na\nb\n", "\nb\na\n"}}));
  ASSERT_OK_AND_ASSIGN(const auto swapped, Load());
  fingerprints.push_back(swapped->fingerprint());
  std::ranges::sort(fingerprints);
  EXPECT_EQ(std::ranges::adjacent_find(fingerprints), fingerprints.end());
}

// Comparison with PyTorch in Python.
class BertReferenceTest : public ContrieverEmbedderTest {
 protected:
  static bool RunReference(const std::vector<std::string>& arguments) {
    std::string line = std::string("'") + BRAID_PYTHON + "' '" +
                       BRAID_TESTS_DIR "/retrieval/bert_reference.py" + "'";
    for (const std::string& argument : arguments) line += " '" + argument + "'";
    return std::system((line + (arguments.size() == 1 ? " 2>/dev/null" : "")).c_str()) == 0;
  }

  void Compare(const TinyBert& bert, int num_texts, int max_words) {
    if (!RunReference({"available"})) GTEST_SKIP() << "python3-torch is not installed";
    const auto embedder = Tiny(bert);
    ASSERT_OK_AND_ASSIGN(const auto files, ContrieverDirectory::Open(directory(), 0));
    const std::vector<std::string> texts = MixedTexts(num_texts, max_words, bert.seed);
    std::string framed;
    for (const std::string& text : texts) {
      const std::vector<int32_t> ids = files.tokenizer.Encode(text, files.max_tokens).ids;
      const auto count = static_cast<uint32_t>(ids.size());
      framed.append(reinterpret_cast<const char*>(&count), 4);
      framed.append(reinterpret_cast<const char*>(ids.data()), 4 * ids.size());
    }
    PutFile(scratch_ / "ids", framed);
    ASSERT_TRUE(RunReference({"embed", directory().string(), (scratch_ / "ids").string(),
                              (scratch_ / "vectors").string()}));
    const std::string bytes = GetFile(scratch_ / "vectors");
    ASSERT_OK_AND_ASSIGN(const Vectors vectors, EmbedAll(*embedder, texts));
    const auto d = static_cast<size_t>(embedder->dimension());
    ASSERT_EQ(bytes.size(), 4 * d * texts.size());
    for (size_t i = 0; i < texts.size(); ++i) {
      std::vector<float> expected(d);
      std::memcpy(expected.data(), bytes.data() + 4 * d * i, 4 * d);
      EXPECT_LE(LargestDifference(vectors[i], expected), kTolerance) << texts[i];
    }
  }
};

TEST_F(BertReferenceTest, EqualsTorchForPython) {
  TinyBert wide;
  wide.config.hidden_size = 132;
  wide.config.num_attention_heads = 12;
  wide.config.num_hidden_layers = 3;
  wide.config.intermediate_size = 200;
  wide.seed = 3;
  Compare(wide, 24, 12);
  TinyBert narrow;
  narrow.config.hidden_size = 64;
  narrow.config.num_attention_heads = 1;
  narrow.config.type_vocab_size = 1;
  narrow.config.layer_norm_eps = 1e-5;
  narrow.seed = 4;
  Compare(narrow, 24, 12);
}

TEST_F(BertReferenceTest, EqualsTorchForPythonAtTheSizeOfContriever) {
  if (std::getenv("BRAID_WHOLE_SIZE") == nullptr) GTEST_SKIP() << "nightly";
  TinyBert contriever;
  contriever.config = {.vocab_size = 1000,
                       .hidden_size = 768,
                       .num_hidden_layers = 12,
                       .num_attention_heads = 12,
                       .intermediate_size = 3072,
                       .max_position_embeddings = 512,
                       .type_vocab_size = 2,
                       .layer_norm_eps = 1e-12};
  Compare(contriever, 12, 150);
}

TEST(PlanBatchesTest, KeepsPaddedTokensWithinTheBound) {
  EXPECT_EQ(PlanBatches(std::vector<int32_t>{2, 3, 4, 5}, 12), (std::vector<size_t>{3, 1}));
  EXPECT_EQ(PlanBatches(std::vector<int32_t>{50, 2, 2}, 12), (std::vector<size_t>{1, 2}));
  EXPECT_EQ(PlanBatches({}, 12), std::vector<size_t>());
  std::mt19937 random(1);
  for (int trial = 0; trial < 200; ++trial) {
    std::vector<int32_t> lengths(random() % 40);
    for (int32_t& length : lengths) length = 2 + static_cast<int32_t>(random() % 30);
    size_t at = 0;
    for (const size_t count : PlanBatches(lengths, 60)) {
      const auto begin = lengths.begin() + static_cast<int64_t>(at);
      const int32_t longest = *std::max_element(begin, begin + static_cast<int64_t>(count));
      EXPECT_TRUE(count == 1 || longest * static_cast<int64_t>(count) <= 60);
      at += count;
    }
    EXPECT_EQ(at, lengths.size());
  }
}

}  // namespace contriever_embedder_test
}  // namespace braid
