#include "inference/sampler.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace braid {
namespace sampler_test {

std::vector<float> LogitsOf(const std::vector<double>& p) {
  std::vector<float> logits;
  for (double x : p) logits.push_back(static_cast<float>(std::log(x) + 3));
  return logits;
}

// Returns the share of a fine grid of uniforms that picks each token.
std::vector<double> Shares(const std::vector<float>& logits, double temperature, double top_p) {
  constexpr int kGrid = 20000;
  std::vector<double> shares(logits.size());
  for (int i = 0; i < kGrid; ++i) {
    shares[*SampleToken(logits, temperature, top_p, (i + 0.5) / kGrid)] += 1.0 / kGrid;
  }
  return shares;
}

void ExpectShares(const std::vector<double>& got, const std::vector<double>& expected) {
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-3) << i;
}

TEST(SamplerTest, TemperatureZeroTakesTheFirstMaximum) {
  EXPECT_EQ(*SampleToken(std::vector<float>{1, 4, 4, 2}, 0, 1, 0.99), 1);
}

TEST(SamplerTest, DrawsFromTheSoftmax) {
  ExpectShares(Shares(LogitsOf({0.2, 0.5, 0.3}), 1, 1), {0.2, 0.5, 0.3});
}

TEST(SamplerTest, TemperatureSharpens) {
  const double z = 0.04 + 0.25 + 0.09;
  ExpectShares(Shares(LogitsOf({0.2, 0.5, 0.3}), 0.5, 1), {0.04 / z, 0.25 / z, 0.09 / z});
}

TEST(SamplerTest, TopPKeepsTheSmallestNucleus) {
  const std::vector<float> logits = LogitsOf({0.2, 0.5, 0.3});
  ExpectShares(Shares(logits, 1, 0.49), {0, 1, 0});
  ExpectShares(Shares(logits, 1, 0.6), {0, 0.625, 0.375});
  ExpectShares(Shares(logits, 1, 0.9), {0.2, 0.5, 0.3});
}

TEST(SamplerTest, EndsOfTheIntervalAreTokens) {
  const std::vector<float> logits = LogitsOf({0.2, 0.5, 0.3});
  EXPECT_EQ(*SampleToken(logits, 1, 1, 0), 1);
  EXPECT_EQ(*SampleToken(logits, 1, 1, std::nextafter(1.0, 0.0)), 0);
}

// The definition of nucleus sampling by sorting all tokens.
int32_t BySorting(const std::vector<float>& logits, double temperature, double top_p,
                  double uniform) {
  const double top = *std::ranges::max_element(logits);
  std::vector<double> p;
  for (const double logit : logits) p.push_back(std::exp((logit - top) / temperature));
  const double sum = std::accumulate(p.begin(), p.end(), 0.0);
  for (double& value : p) value /= sum;
  std::vector<int32_t> order(p.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, [&](int32_t a, int32_t b) { return p[a] > p[b]; });
  double mass = 0;
  size_t nucleus = 0;
  while (nucleus < order.size() && mass < top_p) mass += p[order[nucleus++]];
  double left = uniform * mass;
  for (size_t i = 0; i + 1 < nucleus; ++i) {
    left -= p[order[i]];
    if (left < 0) return order[i];
  }
  return order[nucleus - 1];
}

TEST(SamplerTest, EqualsSortingEveryToken) {
  std::mt19937 random(3);
  std::uniform_real_distribution<double> uniform(0, 1);
  for (int round = 0; round < 3000; ++round) {
    std::vector<float> logits(1 + random() % 300);
    // Integers, so that there are ties.
    for (float& logit : logits) logit = static_cast<float>(random() % 12);
    const double temperature = 0.2 + uniform(random);
    const double top_p = round % 2 == 0 ? 1 : std::max(0.01, uniform(random));
    const double u = uniform(random);
    EXPECT_EQ(*SampleToken(logits, temperature, top_p, u), BySorting(logits, temperature, top_p, u))
        << round;
  }
}

TEST(SamplerTest, NanLogitsAreDataLoss) {
  for (const float bad : {NAN, INFINITY}) {
    for (const double temperature : {0.0, 1.0}) {
      EXPECT_TRUE(
          absl::IsDataLoss(SampleToken(std::vector<float>{0, bad, 1}, temperature, 1, 0).status()));
    }
  }
  EXPECT_TRUE(absl::IsDataLoss(SampleToken(std::vector<float>{-INFINITY}, 1, 1, 0).status()));
  EXPECT_EQ(*SampleToken(std::vector<float>{-INFINITY, 0}, 1, 1, 0.5), 1);
}

}  // namespace sampler_test
}  // namespace braid
