#include "retrieval/static_embedder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cctype>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "formats/weight_files.h"
#include "retrieval/parallel_for.h"
#include "tests/base/scratch_directory.h"
#include "tests/base/status_matchers.h"
#include "tests/retrieval/tiny_bert.h"

namespace braid {
namespace static_embedder_test {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr int64_t kWidth = 19;

// A tokenizer.json like those of model2vec, which have no [CLS] and [SEP], and a random table.
struct TinyStatic {
  std::vector<std::string> pieces = {"[PAD]", "[UNK]", "the", "##ing", ".", "café"};
  std::vector<float> table;  // [V, kWidth]
  json tokenizer;

  TinyStatic() {
    for (char c = 'a'; c <= 'w'; ++c) {
      pieces.push_back(std::string(1, c));
      pieces.push_back(std::string("##") + c);
    }
    json vocabulary;
    for (size_t i = 0; i < pieces.size(); ++i) vocabulary[pieces[i]] = i;
    tokenizer = {{"version", "1.0"},
                 {"added_tokens", json::array()},
                 {"normalizer",
                  {{"type", "BertNormalizer"},
                   {"clean_text", true},
                   {"handle_chinese_chars", true},
                   {"strip_accents", false},
                   {"lowercase", false}}},
                 {"pre_tokenizer", {{"type", "BertPreTokenizer"}}},
                 {"post_processor", nullptr},
                 {"model",
                  {{"type", "WordPiece"},
                   {"unk_token", "[UNK]"},
                   {"continuing_subword_prefix", "##"},
                   {"max_input_chars_per_word", 100},
                   {"vocab", vocabulary}}}};
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    table.resize(pieces.size() * kWidth);
    for (float& x : table) x = normal(random);
  }

  void Write(const fs::path& directory, const std::string& tensor = "embeddings") const {
    PutFile(directory / "tokenizer.json", tokenizer.dump());
    const auto written = WriteWeightFiles(
        directory,
        {.tensors = {{tensor, DType::kF32, {static_cast<int64_t>(pieces.size()), kWidth}}},
         .values = [&](const TensorInfo&) -> absl::StatusOr<std::span<const float>> {
           return std::span<const float>(table);
         },
         .max_file_bytes = int64_t{1} << 40});
    ASSERT_OK(written);
  }

  // Embeds by definition: greedy longest pieces of words between spaces, with "." as a word.
  std::vector<double> Embed(const std::string& text, size_t max_tokens) const {
    std::vector<size_t> ids;
    std::string word;
    for (const char c : text + " ") {
      if (c != ' ' && c != '.') {
        word += c;
        continue;
      }
      for (const std::string& part : {word, c == '.' ? std::string(".") : std::string()}) {
        if (!part.empty()) AddWord(part, &ids);
      }
      word.clear();
    }
    ids.resize(std::min(ids.size(), max_tokens));
    std::vector<double> mean(kWidth, 0);
    double squares = 0;
    for (const size_t id : ids) {
      for (size_t j = 0; j < kWidth && id != 1; ++j) mean[j] += table[id * kWidth + j];
    }
    for (const double x : mean) squares += x * x;
    for (double& x : mean) x = squares > 0 ? x / std::sqrt(squares) : 0;
    return mean;
  }

  void AddWord(const std::string& word, std::vector<size_t>* ids) const {
    std::vector<size_t> own;
    for (size_t at = 0; at < word.size();) {
      size_t best = 0, length = 0;
      for (size_t i = 0; i < pieces.size(); ++i) {
        const bool goes_on = pieces[i].starts_with("##");
        const std::string bytes = goes_on ? pieces[i].substr(2) : pieces[i];
        if (goes_on == (at > 0) && bytes.size() > length &&
            word.compare(at, bytes.size(), bytes) == 0) {
          best = i;
          length = bytes.size();
        }
      }
      if (length == 0) return ids->push_back(1);
      own.push_back(best);
      at += length;
    }
    ids->insert(ids->end(), own.begin(), own.end());
  }
};

class StaticEmbedderTest : public testing::Test {
 protected:
  absl::StatusOr<std::unique_ptr<StaticEmbedder>> Load(int32_t max_tokens = 512) const {
    const StaticOptions options = {.directory = scratch_.path(), .max_tokens = max_tokens};
    absl::StatusOr<std::unique_ptr<StaticEmbedder>> embedder = StaticEmbedder::Load(options);
    EXPECT_EQ(StaticEmbedder::Check(options), embedder.status());
    return embedder;
  }
  ScratchDirectory scratch_;
};

TEST_F(StaticEmbedderTest, EqualsTheMeanOfTokenVectorsByDefinition) {
  const TinyStatic model;
  model.Write(scratch_.path());
  std::mt19937 random(2);
  std::vector<std::string> texts = {"", "the", "[UNK]", "xyz", "the xyz .", "café caf."};
  for (int i = 0; i < 200; ++i) {
    // x, y and z are unknown.
    texts.push_back(RandomWords(1 + static_cast<int>(random() % 30), &random));
    if (i % 3 == 0) texts.back() += " thing. the";
  }
  const std::vector<std::string_view> views(texts.begin(), texts.end());
  for (const int32_t max_tokens : {512, 7}) {
    ASSERT_OK_AND_ASSIGN(const auto embedder, Load(max_tokens));
    ASSERT_EQ(embedder->dimension(), kWidth);
    std::vector<float> vectors(texts.size() * kWidth, 9);
    SetRetrievalThreads(2);
    ASSERT_OK_AND_ASSIGN(const int64_t num_cut, embedder->EmbedAndCountCut(views, vectors));
    EXPECT_EQ(num_cut > 0, max_tokens == 7);
    for (size_t i = 0; i < texts.size(); ++i) {
      if (texts[i] == "[UNK]") continue;  // its brackets are words
      const std::vector<double> expected = model.Embed(texts[i], static_cast<size_t>(max_tokens));
      for (size_t j = 0; j < kWidth; ++j) {
        ASSERT_NEAR(vectors[i * kWidth + j], expected[j], 1e-6) << texts[i];
      }
    }
    SetRetrievalThreads(1);
    std::vector<float> alone(vectors.size());
    ASSERT_OK(embedder->Embed(views, alone));
    EXPECT_EQ(alone, vectors) << "the same bits for any number of threads";
  }
  SetRetrievalThreads(0);
}

TEST_F(StaticEmbedderTest, FingerprintNamesWhatDecidesVectors) {
  TinyStatic model;
  model.Write(scratch_.path());
  ASSERT_OK_AND_ASSIGN(const auto first, Load());
  ASSERT_OK_AND_ASSIGN(const auto again, Load());
  ASSERT_OK_AND_ASSIGN(const auto shorter, Load(8));
  EXPECT_EQ(first->fingerprint(), again->fingerprint());
  EXPECT_NE(first->fingerprint(), shorter->fingerprint());
  model.table[5] += 1;
  model.Write(scratch_.path());
  ASSERT_OK_AND_ASSIGN(const auto other, Load());
  EXPECT_NE(first->fingerprint(), other->fingerprint());
}

TEST_F(StaticEmbedderTest, RefusesOtherModelsByName) {
  const auto fails = [&](const char* pointer, const json& value, const std::string& part) {
    TinyStatic model;
    model.tokenizer[json::json_pointer(pointer)] = value;
    model.Write(scratch_.path());
    const absl::Status status = Load().status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << pointer;
    EXPECT_THAT(std::string(status.message()), testing::HasSubstr("tokenizer.json"));
    EXPECT_THAT(std::string(status.message()), testing::HasSubstr(part)) << pointer;
    EXPECT_LE(status.message().size(), 300u);
  };
  fails("/model/type", "BPE", "model: type: got \"BPE\"");
  fails("/model/unk_token", "<unk>", "unk_token");
  fails("/model/vocab/the", 3, "the id of \"the\"");
  fails("/model/vocab/the", 10000, "10000");
  fails("/model/vocab", json::array(), "vocab: got no object");
  fails("/normalizer/type", "NFC", "BertNormalizer");
  fails("/normalizer/lowercase", true, "strip_accents");
  fails("/pre_tokenizer", nullptr, "BertPreTokenizer");
  TinyStatic model;
  model.Write(scratch_.path(), "weights");
  EXPECT_FAILS(Load(), absl::StatusCode::kInvalidArgument, "weights", "only \"embeddings\"");
  model.pieces.pop_back();
  model.table.resize(model.table.size() - kWidth);
  model.Write(scratch_.path());
  EXPECT_FAILS(Load(), absl::StatusCode::kInvalidArgument, "embeddings of shape");
  EXPECT_FAILS(Load(0), absl::StatusCode::kInvalidArgument, "max_tokens", "0");
}

}  // namespace static_embedder_test
}  // namespace braid
