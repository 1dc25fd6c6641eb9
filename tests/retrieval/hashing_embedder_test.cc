#include "retrieval/hashing_embedder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <xxhash.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "formats/npy.h"
#include "retrieval/inner_product.h"
#include "retrieval/parallel_for.h"
#include "tests/base/status_matchers.h"

namespace braid {
namespace hashing_embedder_test {

using Texts = std::vector<std::string_view>;

std::vector<std::string> RandomCorpus(int num_documents, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<std::string> corpus;
  for (int i = 0; i < num_documents; ++i) {
    std::string text;
    for (uint32_t j = random() % 60; j > 0; --j) {
      // Chooses words with a skewed distribution, so that they repeat within and across documents.
      const uint32_t word = random() % (1 + random() % 300);
      text.append("w").append(std::to_string(word)).append(random() % 5 == 0 ? ", " : " ");
    }
    corpus.push_back(text);
  }
  return corpus;
}

Texts Views(const std::vector<std::string>& texts) { return {texts.begin(), texts.end()}; }

DocumentFrequencies Fit(const Texts& texts, int32_t max_ngram) {
  DocumentFrequencies frequencies(max_ngram);
  frequencies.AddAll(texts);
  return frequencies;
}

std::vector<float> Embed(const Embedder& embedder, const Texts& texts) {
  std::vector<float> vectors(texts.size() * embedder.dimension(), -1);
  EXPECT_TRUE(embedder.Embed(texts, vectors).ok());
  return vectors;
}

std::unique_ptr<HashingEmbedder> MakeEmbedder(const HashingOptions& options,
                                              std::optional<DocumentFrequencies> frequencies) {
  auto embedder = HashingEmbedder::Create(options, std::move(frequencies));
  EXPECT_TRUE(embedder.ok()) << embedder.status();
  return *std::move(embedder);
}

float Cosine(const Embedder& embedder, std::string_view a, std::string_view b) {
  const std::vector<float> vectors = Embed(embedder, {a, b});
  const int32_t d = embedder.dimension();
  return InnerProduct(vectors.data(), vectors.data() + d, d);
}

// TF-IDF by its definition, for texts of lower-case words and single separators.
class Oracle {
 public:
  Oracle(const Texts& corpus, int max_ngram)
      : max_ngram_(max_ngram), num_documents_(corpus.size()) {
    for (std::string_view text : corpus) {
      std::set<uint64_t> buckets;
      for (const auto& [hash, count] : Count(text)) buckets.insert(hash % (1 << 20));
      for (uint64_t bucket : buckets) ++frequency_[bucket];
    }
  }

  std::vector<double> Embed(std::string_view text, int dimension) {
    std::vector<double> vector(dimension, 0);
    for (const auto& [hash, count] : Count(text)) {
      const double tf = 1 + std::log(count);
      const double idf = std::log((1 + num_documents_) / (1 + frequency_[hash % (1 << 20)]));
      const double sign = (hash & 0x8000000000000000ull) ? -1 : 1;
      vector[(hash / (1 << 20)) % dimension] += sign * tf * idf;
    }
    double norm = 0;
    for (double x : vector) norm += x * x;
    for (double& x : vector) x = norm > 0 ? x / std::sqrt(norm) : 0;
    return vector;
  }

 private:
  std::map<uint64_t, double> Count(std::string_view text) const {
    std::vector<std::string> words(1);
    for (char c : text) {
      if (c != ' ' && c != ',') {
        words.back() += c;
      } else if (!words.back().empty()) {
        words.emplace_back();
      }
    }
    if (words.back().empty()) words.pop_back();
    std::map<uint64_t, double> counts;
    for (size_t i = 0; i < words.size(); ++i) {
      std::string ngram;
      for (size_t n = 0; n < static_cast<size_t>(max_ngram_) && i + n < words.size(); ++n) {
        ngram += (n > 0 ? " " : "") + words[i + n];
        ++counts[XXH3_64bits(ngram.data(), ngram.size())];
      }
    }
    return counts;
  }

  int max_ngram_;
  double num_documents_;
  std::map<uint64_t, double> frequency_;
};

TEST(HashingEmbedderTest, EqualsTfIdfByDefinition) {
  for (int32_t max_ngram : {1, 2, 3}) {
    const std::vector<std::string> corpus = RandomCorpus(120, 7 + max_ngram);
    const auto embedder =
        MakeEmbedder({.dimension = 64, .max_ngram = max_ngram}, Fit(Views(corpus), max_ngram));
    const std::vector<float> vectors = Embed(*embedder, Views(corpus));
    Oracle oracle(Views(corpus), max_ngram);
    for (size_t i = 0; i < corpus.size(); ++i) {
      const std::vector<double> expected = oracle.Embed(corpus[i], 64);
      for (size_t j = 0; j < 64; ++j) ASSERT_NEAR(vectors[i * 64 + j], expected[j], 1e-6);
    }
  }
}

TEST(HashingEmbedderTest, HasUnitNormOrIsZero) {
  std::vector<std::string> corpus = RandomCorpus(200, 3);
  corpus.push_back("");
  corpus.push_back(" ... ");
  const auto embedder = MakeEmbedder({}, Fit(Views(corpus), 2));
  const std::vector<float> vectors = Embed(*embedder, Views(corpus));
  int num_zero = 0;
  for (size_t i = 0; i < corpus.size(); ++i) {
    const float* row = vectors.data() + i * 512;
    const float squares = InnerProduct(row, row, 512);
    if (corpus[i].find('w') == std::string::npos) {
      EXPECT_EQ(squares, 0) << corpus[i];
      ++num_zero;
    } else {
      EXPECT_NEAR(squares, 1, 1e-5) << corpus[i];
    }
  }
  EXPECT_GE(num_zero, 2);
}

TEST(HashingEmbedderTest, GivesTheSameBitsForAnyNumberOfThreads) {
  const std::vector<std::string> corpus = RandomCorpus(300, 5);
  SetRetrievalThreads(1);
  const DocumentFrequencies one = Fit(Views(corpus), 2);
  const auto embedder = MakeEmbedder({}, one);
  const std::vector<float> expected = Embed(*embedder, Views(corpus));
  for (int threads : {2, 3, 8}) {
    SetRetrievalThreads(threads);
    EXPECT_EQ(Fit(Views(corpus), 2).fingerprint(), one.fingerprint());
    EXPECT_EQ(Embed(*embedder, Views(corpus)), expected);
  }
  SetRetrievalThreads(0);
}

TEST(HashingEmbedderTest, VectorsDoNotDependOnTheBatch) {
  const std::vector<std::string> corpus = RandomCorpus(50, 6);
  const auto embedder = MakeEmbedder({.dimension = 32}, Fit(Views(corpus), 2));
  const std::vector<float> together = Embed(*embedder, Views(corpus));
  for (size_t i = 0; i < corpus.size(); ++i) {
    const std::vector<float> alone = Embed(*embedder, {corpus[i]});
    EXPECT_TRUE(std::equal(alone.begin(), alone.end(), together.begin() + i * 32));
  }
}

TEST(HashingEmbedderTest, PutsSimilarTextsCloser) {
  const std::string_view cats = "the cat sat on the mat and the cat slept all day long";
  const std::string_view more_cats = "all day long the cat slept on the mat where it sat";
  const std::string_view compiler = "the compiler emits machine code for each translation unit";
  const auto embedder = MakeEmbedder({}, Fit({cats, more_cats, compiler, "the end"}, 2));
  EXPECT_GT(Cosine(*embedder, cats, more_cats), Cosine(*embedder, cats, compiler) + 0.3);
  EXPECT_NEAR(Cosine(*embedder, cats, "The CAT sat: on the mat, and the cat slept all day long!"),
              1, 1e-5);
}

TEST(HashingEmbedderTest, WeighsWordsEquallyWithoutFrequencies) {
  const auto embedder = MakeEmbedder({.dimension = 4096, .max_ngram = 1}, std::nullopt);
  EXPECT_NEAR(Cosine(*embedder, "alpha beta", "beta gamma"), 0.5, 1e-5);
}

TEST(HashingEmbedderTest, RejectsInvalidOptions) {
  EXPECT_TRUE(
      absl::IsInvalidArgument(HashingEmbedder::Create({.dimension = 0}, std::nullopt).status()));
  EXPECT_TRUE(
      absl::IsInvalidArgument(HashingEmbedder::Create({.max_ngram = 9}, std::nullopt).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(
      HashingEmbedder::Create({.max_ngram = 1}, DocumentFrequencies(2)).status()));
}

TEST(HashingEmbedderTest, RejectsWrongOutputSize) {
  const auto embedder = MakeEmbedder({.dimension = 8}, std::nullopt);
  std::vector<float> vectors(15);
  const Texts texts = {"a", "b"};
  EXPECT_TRUE(absl::IsInvalidArgument(embedder->Embed(texts, vectors)));
}

TEST(HashingEmbedderTest, FingerprintsDistinguishFunctions) {
  const std::set<std::string> fingerprints = {
      MakeEmbedder({}, std::nullopt)->fingerprint(),
      MakeEmbedder({.dimension = 256}, std::nullopt)->fingerprint(),
      MakeEmbedder({.max_ngram = 1}, std::nullopt)->fingerprint(),
      MakeEmbedder({}, DocumentFrequencies(2))->fingerprint(),
      MakeEmbedder({}, Fit({"a"}, 2))->fingerprint(),
      MakeEmbedder({}, Fit({"a", ""}, 2))->fingerprint()};
  EXPECT_EQ(fingerprints.size(), 6u);
}

class DocumentFrequenciesTest : public testing::Test {
 protected:
  DocumentFrequenciesTest()
      : path_(std::filesystem::path(testing::TempDir()) /
              ("frequencies-" + std::to_string(getpid()) + ".npy")) {}
  ~DocumentFrequenciesTest() override { std::filesystem::remove(path_); }

  std::filesystem::path path_;
};

TEST_F(DocumentFrequenciesTest, CountsDocumentsNotOccurrences) {
  const DocumentFrequencies frequencies = Fit({"apple apple pear", "Apple", ""}, 1);
  EXPECT_EQ(frequencies.num_documents(), 3);
  EXPECT_EQ(frequencies.Frequency(XXH3_64bits("apple", 5)), 2);
  EXPECT_EQ(frequencies.Frequency(XXH3_64bits("pear", 4)), 1);
  EXPECT_DOUBLE_EQ(frequencies.InverseFrequency(XXH3_64bits("apple", 5)), std::log(4.0 / 3.0));
}

TEST_F(DocumentFrequenciesTest, SurvivesSaveAndLoad) {
  const DocumentFrequencies saved = Fit(Views(RandomCorpus(100, 9)), 3);
  ASSERT_TRUE(saved.Save(path_).ok());
  const auto loaded = DocumentFrequencies::Load(path_);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->num_documents(), 100);
  EXPECT_EQ(loaded->max_ngram(), 3);
  EXPECT_EQ(loaded->fingerprint(), saved.fingerprint());
}

TEST_F(DocumentFrequenciesTest, RefusesAnotherArray) {
  ASSERT_TRUE(Fit({"x"}, 1).Save(path_).ok());
  std::filesystem::resize_file(path_, 1000);
  EXPECT_FALSE(DocumentFrequencies::Load(path_).ok());
  // The number of documents, the longest n-gram, and a count for each bucket.
  std::vector<uint32_t> values(2 + DocumentFrequencies::kNumBuckets);
  const auto refused = [&](const std::string& problem) {
    const std::vector<int64_t> shape = {std::ssize(values)};
    ASSERT_OK(WriteNpy<uint32_t>(path_, shape, values));
    EXPECT_FAILS(DocumentFrequencies::Load(path_), absl::StatusCode::kDataLoss, path_.string(),
                 problem);
  };
  values[0] = 5;
  values[1] = 1;
  values[7] = 6;
  refused("a count exceeds the number of documents, 5");
  values[7] = 5;
  values[1] = 0;
  refused("max_ngram is 0");
  values = {5, 1, 5};
  refused("got 3 values");
  EXPECT_TRUE(absl::IsNotFound(DocumentFrequencies::Load(path_.string() + ".missing").status()));
}

}  // namespace hashing_embedder_test
}  // namespace braid
