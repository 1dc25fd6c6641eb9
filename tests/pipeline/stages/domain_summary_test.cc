#include "pipeline/stages/domain_summary.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <random>
#include <set>
#include <utility>

#include "tests/base/status_matchers.h"
#include "tests/pipeline/jobs/generated_corpus.h"

namespace braid {
namespace domain_summary_test {

constexpr int kDimension = 6;
constexpr int kDocuments = 2500;  // more than one look

// Documents of three domains, and a domain without any: some are trained on, some are held out,
// some are neither.
struct Corpus {
  Corpus() {
    std::mt19937_64 random(1);
    std::normal_distribution<float> normal;
    for (uint32_t i = 0; i < kDocuments; ++i) {
      domains.numbers.push_back(static_cast<int32_t>(random() % 3));
      sources.push_back("d" + std::to_string(i / 5));
      tokens.push_back(1 + static_cast<int64_t>(random() % 90));
      for (int k = 0; k < kDimension; ++k) values.push_back(normal(random));
      const uint64_t side = random() % 10;
      if (side < 7) training.push_back(i);
      if (side == 7 || side == 8) heldout.push_back(i);
    }
    std::ranges::shuffle(training, random);
  }

  std::vector<v1::DomainSummary> Summarize() const {
    const auto summaries = SummarizeDomains(
        {.domains = domains,
         .training = training,
         .heldout = heldout,
         .embeddings = {values, kDocuments, kDimension},
         .num_tokens = [this](uint32_t document) { return tokens[document]; },
         .source = [this](uint32_t document) -> std::string_view { return sources[document]; }},
        [] { return absl::OkStatus(); });
    EXPECT_OK(summaries.status());
    return *summaries;
  }

  // Computes each figure with its own double loop.
  double Similarity(int32_t domain) const {
    double dot = 0, own_square = 0, all_square = 0;
    for (int k = 0; k < kDimension; ++k) {
      double own = 0, all = 0;
      for (const uint32_t i : training) {
        const double value = static_cast<double>(tokens[i]) * values[i * kDimension + k];
        all += value;
        if (domains.numbers[i] == domain) own += value;
      }
      dot += own * all;
      own_square += own * own;
      all_square += all * all;
    }
    return dot / std::sqrt(own_square * all_square);
  }

  DocumentDomains domains{{"a", "b", "c", "empty"}, {}};
  std::vector<std::string> sources;  // each of five documents
  std::vector<int64_t> tokens;
  std::vector<float> values;
  std::vector<uint32_t> training, heldout;
};

TEST(DomainSummaryTest, EqualsOneLoopPerFigure) {
  const Corpus corpus;
  const auto summaries = corpus.Summarize();
  ASSERT_EQ(summaries.size(), 4u);
  for (int32_t d = 0; d < 4; ++d) {
    const auto count = [&](const std::vector<uint32_t>& documents) {
      std::pair<int64_t, int64_t> found;
      for (const uint32_t i : documents) {
        if (corpus.domains.numbers[i] != d) continue;
        ++found.first;
        found.second += corpus.tokens[i];
      }
      return found;
    };
    const v1::DomainSummary& summary = summaries[static_cast<size_t>(d)];
    EXPECT_EQ(summary.name(), corpus.domains.names[static_cast<size_t>(d)]);
    EXPECT_EQ(std::pair(summary.num_documents(), summary.num_tokens()), count(corpus.training));
    EXPECT_EQ(std::pair(summary.num_heldout_documents(), summary.num_heldout_tokens()),
              count(corpus.heldout));
    std::set<uint32_t> sources;
    for (const uint32_t i : corpus.heldout) {
      if (corpus.domains.numbers[i] == d) sources.insert(i / 5);
    }
    EXPECT_EQ(summary.num_heldout_sources(), static_cast<int64_t>(sources.size()));
    EXPECT_EQ(sources.size() < static_cast<size_t>(summary.num_heldout_documents()), d < 3);
    const double similarity = d < 3 ? corpus.Similarity(d) : 0;
    EXPECT_NEAR(summary.similarity(), similarity, 1e-9);
  }
}

TEST(DomainSummaryTest, DoesNotDependOnTheOrder) {
  Corpus corpus;
  const std::string shuffled = DomainSummariesJson(corpus.Summarize());
  std::ranges::sort(corpus.training);
  EXPECT_EQ(DomainSummariesJson(corpus.Summarize()), shuffled);
}

TEST(DomainSummaryTest, ARareDissimilarDomainHasLowSimilarity) {
  const std::vector<float> values = {1, 0, 0.9f, 0.1f, 0, 1};
  const std::vector<uint32_t> training = {0, 1, 2};
  const DocumentDomains domains{{"code", "news", "wiki"}, {1, 2, 0}};
  const std::vector<int64_t> tokens = {1000, 800, 50};
  const auto summaries =
      SummarizeDomains({.domains = domains,
                        .training = training,
                        .embeddings = {values, 3, 2},
                        .num_tokens = [&](uint32_t document) { return tokens[document]; },
                        .source = [](uint32_t) { return "x"; }},
                       [] { return absl::OkStatus(); });
  ASSERT_OK(summaries.status());
  EXPECT_LT((*summaries)[0].similarity(), 0.2);
  EXPECT_GT((*summaries)[1].similarity(), 0.9);
  EXPECT_GT((*summaries)[2].similarity(), 0.9);
}

TEST(DomainSummaryTest, ReadsBackEveryBit) {
  const std::filesystem::path directory = NewDirectory();
  const auto summaries = Corpus().Summarize();
  std::ofstream(directory / "domain_summaries.json") << DomainSummariesJson(summaries);
  const auto read = ReadDomainSummaries(directory);
  ASSERT_OK(read.status());
  ASSERT_EQ(read->size(), summaries.size());
  for (size_t i = 0; i < summaries.size(); ++i) {
    EXPECT_EQ((*read)[i].SerializeAsString(), summaries[i].SerializeAsString());
  }
}

TEST(DomainSummaryTest, RefusesAnythingButAListOfDomains) {
  const std::filesystem::path directory = NewDirectory();
  EXPECT_FAILS(ReadDomainSummaries(directory), absl::StatusCode::kNotFound,
               "domain_summaries.json");
  for (const char* text : {"", "[", "[1]", "7", R"([{"name": "a"}])",
                           R"([{"name": 1, "num_documents": 1, "num_tokens": 1}])"}) {
    std::ofstream(directory / "domain_summaries.json") << text;
    EXPECT_FAILS(ReadDomainSummaries(directory), absl::StatusCode::kDataLoss,
                 "domain_summaries.json");
  }
}

TEST(DomainSummaryTest, KeepsTheLargestOfManyByName) {
  std::vector<v1::DomainSummary> summaries(5);
  for (int i = 0; i < 5; ++i) {
    summaries[static_cast<size_t>(i)].set_name(std::string(1, static_cast<char>('a' + i)));
    summaries[static_cast<size_t>(i)].set_num_tokens(10 + (7 * i) % 5);
  }
  const auto names = [](const std::vector<v1::DomainSummary>& kept) {
    std::string joined;
    for (const v1::DomainSummary& summary : kept) joined += summary.name();
    return joined;
  };
  EXPECT_EQ(names(LargestDomains(summaries, 5)), "abcde");
  EXPECT_EQ(names(LargestDomains(summaries, 2)), "ce") << "tokens are 10, 12, 14, 11, 13";
  EXPECT_EQ(names(LargestDomains(summaries, 0)), "");
}

TEST(DomainSummaryTest, StopsWhenTheCallbackFails) {
  const Corpus corpus;
  const PackedDocuments documents = {.domains = corpus.domains,
                                     .training = corpus.training,
                                     .embeddings = {corpus.values, kDocuments, kDimension},
                                     .num_tokens = [](uint32_t) { return 1; },
                                     .source = [](uint32_t) { return "x"; }};
  EXPECT_FAILS(SummarizeDomains(documents, [] { return absl::CancelledError("stop"); }),
               absl::StatusCode::kCancelled, "stop");
}

}  // namespace domain_summary_test
}  // namespace braid
