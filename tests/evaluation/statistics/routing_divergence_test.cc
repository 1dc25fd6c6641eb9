#include "evaluation/statistics/routing_divergence.h"

#include <cmath>
#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace braid {
namespace routing_divergence_test {

std::vector<double> RandomDistribution(size_t size, std::mt19937* random) {
  std::gamma_distribution<double> gamma(0.5);
  std::vector<double> weights(size);
  double sum = 0;
  for (double& w : weights) sum += w = gamma(*random);
  for (double& w : weights) w /= sum;
  return weights;
}

// The other definition: the mean of KL(distribution || mean of all).
double SlowDivergence(const std::vector<std::vector<double>>& distributions) {
  const double count = static_cast<double>(distributions.size());
  double divergence = 0;
  for (const std::vector<double>& p : distributions) {
    for (size_t i = 0; i < p.size(); ++i) {
      double mean = 0;
      for (const std::vector<double>& q : distributions) mean += q[i] / count;
      if (p[i] > 0) divergence += p[i] * std::log(p[i] / mean) / count;
    }
  }
  return divergence;
}

TEST(RoutingDivergenceTest, IsTheMeanDistanceFromTheMean) {
  std::mt19937 random(5);
  for (const size_t domains : {2, 3, 12}) {
    for (const size_t experts : {2, 8, 32}) {
      std::vector<std::vector<double>> distributions;
      for (size_t d = 0; d < domains; ++d) {
        distributions.push_back(RandomDistribution(experts, &random));
      }
      distributions[0].assign(experts, 0.0);
      distributions[0][1] = 1;
      EXPECT_NEAR(JensenShannonDivergence(distributions), SlowDivergence(distributions), 1e-12);
    }
  }
}

TEST(RoutingDivergenceTest, StaysWithinItsBounds) {
  const std::vector<double> uneven = {0.1, 0.2, 0.3, 0.4};
  EXPECT_EQ(JensenShannonDivergence({}), 0);
  EXPECT_EQ(JensenShannonDivergence(std::vector<std::vector<double>>(1, uneven)), 0);
  const std::vector<std::vector<double>> exact(3, {0.25, 0.75});
  EXPECT_EQ(JensenShannonDivergence(exact), 0);
  const std::vector<std::vector<double>> alike(3, uneven);
  EXPECT_NEAR(JensenShannonDivergence(alike), 0, 1e-15);
  EXPECT_GE(JensenShannonDivergence(alike), 0);
  const std::vector<std::vector<double>> apart = {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}};
  EXPECT_NEAR(JensenShannonDivergence(apart), std::log(3), 1e-15);
}

TEST(RoutingDivergenceTest, EntropyOfKnownDistributions) {
  EXPECT_EQ(Entropy(std::vector<double>{0, 1, 0}), 0);
  EXPECT_NEAR(Entropy(std::vector<double>(8, 0.125)), std::log(8), 1e-15);
}

}  // namespace routing_divergence_test
}  // namespace braid
