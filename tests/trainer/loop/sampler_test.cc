#include "trainer/generation/sampler.h"

#include <cmath>
#include <vector>

#include "gtest/gtest.h"

namespace braid {
namespace {

std::vector<float> LogitsOf(const std::vector<double>& p) {
  std::vector<float> logits;
  for (double x : p) logits.push_back(static_cast<float>(std::log(x) + 3));
  return logits;
}

// Share of a fine grid of uniforms that picks each token.
std::vector<double> Shares(const std::vector<float>& logits, double temperature, double top_p) {
  constexpr int kGrid = 20000;
  std::vector<double> shares(logits.size());
  for (int i = 0; i < kGrid; ++i) {
    shares[SampleToken(logits, temperature, top_p, (i + 0.5) / kGrid)] += 1.0 / kGrid;
  }
  return shares;
}

void ExpectShares(const std::vector<double>& got, const std::vector<double>& expected) {
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-3) << i;
}

TEST(SamplerTest, TemperatureZeroTakesTheFirstMaximum) {
  EXPECT_EQ(SampleToken(std::vector<float>{1, 4, 4, 2}, 0, 1, 0.99), 1);
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
  EXPECT_EQ(SampleToken(logits, 1, 1, 0), 1);
  EXPECT_EQ(SampleToken(logits, 1, 1, std::nextafter(1.0, 0.0)), 0);
}

}  // namespace
}  // namespace braid
