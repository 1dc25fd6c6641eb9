#include "cli/reproduce/domain_profile.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace braid {
namespace {

TEST(DomainProfileTest, SimilarityIsTheCosineOfWeightedMeans) {
  constexpr int kDimension = 6;
  constexpr int kDocuments = 50;
  std::mt19937_64 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> embeddings(kDocuments * kDimension);
  for (float& value : embeddings) value = normal(random);
  std::vector<int32_t> domains;
  std::vector<int64_t> tokens;
  for (int i = 0; i < kDocuments; ++i) {
    domains.push_back(i % 3);
    tokens.push_back(10 + i);
  }
  const auto profiles =
      ProfileDomains({embeddings, kDimension, domains, tokens}, {"a", "b", "c", "empty"});
  ASSERT_EQ(profiles.size(), 4);
  EXPECT_EQ(profiles[3].similarity, 0);
  EXPECT_EQ(profiles[3].num_tokens, 0);
  for (int d = 0; d < 3; ++d) {
    double dot = 0, mine = 0, all = 0;
    int64_t expected_tokens = 0;
    for (int i = 0; i < kDocuments; ++i) expected_tokens += domains[i] == d ? tokens[i] : 0;
    for (int k = 0; k < kDimension; ++k) {
      double own_sum = 0, sum = 0;
      for (int i = 0; i < kDocuments; ++i) {
        const double value = static_cast<double>(tokens[i]) * embeddings[i * kDimension + k];
        sum += value;
        if (domains[i] == d) own_sum += value;
      }
      dot += own_sum * sum;
      mine += own_sum * own_sum;
      all += sum * sum;
    }
    EXPECT_EQ(profiles[d].num_tokens, expected_tokens);
    EXPECT_NEAR(profiles[d].similarity, dot / std::sqrt(mine * all), 1e-9);
  }
}

TEST(DomainProfileTest, ARareUnlikeDomainIsDistinct) {
  const std::vector<float> embeddings = {1, 0, 0.9f, 0.1f, 0, 1};
  const std::vector<int32_t> domains = {0, 1, 2};
  const std::vector<int64_t> tokens = {1000, 800, 50};
  const auto profiles = ProfileDomains({embeddings, 2, domains, tokens}, {"news", "wiki", "code"});
  EXPECT_GT(profiles[0].similarity, 0.9);
  EXPECT_GT(profiles[1].similarity, 0.9);
  EXPECT_LT(profiles[2].similarity, 0.2);
}

}  // namespace
}  // namespace braid
