#include "evaluation/statistics/bootstrap.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <vector>

#include "base/splitmix.h"
#include "gtest/gtest.h"

namespace braid {
namespace bootstrap_test {

std::vector<RatioUnit> RandomUnits(uint64_t seed, int64_t count) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> nats(3, 1);
  std::uniform_int_distribution<int> tokens(1, 40);
  std::vector<RatioUnit> units;
  for (int64_t i = 0; i < count; ++i) {
    const double n = tokens(random);
    units.push_back({n * nats(random), n});
  }
  return units;
}

double Ratio(std::span<const RatioUnit> units) {
  double numerator = 0, denominator = 0;
  for (const RatioUnit& unit : units) numerator += unit.numerator, denominator += unit.denominator;
  return numerator / denominator;
}

// Writes out a resample unit by unit.
std::vector<RatioUnit> Resample(std::span<const RatioUnit> units, uint64_t seed, uint64_t sample) {
  std::vector<RatioUnit> drawn;
  for (uint64_t i = 0; i < units.size(); ++i) {
    const double u = UnitInterval(Mix64(seed, sample * units.size() + i));
    drawn.push_back(units[static_cast<size_t>(u * static_cast<double>(units.size()))]);
  }
  return drawn;
}

// Computes the default quantile of numpy.quantile.
double PlainQuantile(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  const double at = share * static_cast<double>(values.size() - 1);
  const double low = values[static_cast<size_t>(std::floor(at))];
  const double high = values[static_cast<size_t>(std::ceil(at))];
  return low + (high - low) * (at - std::floor(at));
}

TEST(BootstrapTest, IsThePercentilesOfResampledRatios) {
  for (uint64_t seed = 0; seed < 5; ++seed) {
    const auto a = RandomUnits(seed, 3 + 7 * static_cast<int64_t>(seed));
    const auto b = RandomUnits(seed + 100, static_cast<int64_t>(a.size()));
    const BootstrapOptions options = {.samples = 137, .seed = seed, .confidence = 0.9};
    std::vector<double> ratios, differences;
    for (uint64_t sample = 0; sample < 137; ++sample) {
      ratios.push_back(Ratio(Resample(a, seed, sample)));
      differences.push_back(ratios.back() - Ratio(Resample(b, seed, sample)));
    }
    const v1::Interval ratio = BootstrapRatio(a, options);
    EXPECT_NEAR(ratio.low(), PlainQuantile(ratios, 0.05), 1e-12);
    EXPECT_NEAR(ratio.high(), PlainQuantile(ratios, 0.95), 1e-12);
    const v1::Interval difference = BootstrapDifference(a, b, options);
    EXPECT_NEAR(difference.low(), PlainQuantile(differences, 0.05), 1e-12);
    EXPECT_NEAR(difference.high(), PlainQuantile(differences, 0.95), 1e-12);
  }
}

// All units are drawn equally often.
TEST(BootstrapTest, DrawsAreUniform) {
  constexpr int64_t kUnits = 7, kSamples = 7000;
  std::vector<double> drawn(kUnits);
  const BootstrapOptions options = {.samples = kSamples, .seed = 5};
  Bootstrap(kUnits, options, [&](std::span<const int32_t> draws) {
    EXPECT_EQ(std::accumulate(draws.begin(), draws.end(), 0), kUnits);
    for (int64_t i = 0; i < kUnits; ++i) drawn[i] += draws[i];
    return 0.0;
  });
  for (double count : drawn) EXPECT_NEAR(count, kSamples + 1, 5 * std::sqrt(kSamples));
}

// The true ratio of the generator is 3 nats per token.
TEST(BootstrapTest, IntervalsCoverTheTruthAtTheirConfidenceLevel) {
  constexpr int kTrials = 600;
  int covered = 0, covered_difference = 0;
  for (int trial = 0; trial < kTrials; ++trial) {
    const auto a = RandomUnits(1000 + trial, 80);
    const auto b = RandomUnits(9000 + trial, 80);
    const BootstrapOptions options = {
        .samples = 300, .seed = static_cast<uint64_t>(trial), .confidence = 0.9};
    const v1::Interval interval = BootstrapRatio(a, options);
    covered += interval.low() <= 3 && 3 <= interval.high();
    const v1::Interval difference = BootstrapDifference(a, b, options);
    covered_difference += difference.low() <= 0 && 0 <= difference.high();
  }
  // Percentile intervals of 80 units fall a little short; 4 standard errors are 0.049.
  EXPECT_NEAR(covered / double{kTrials}, 0.89, 0.05);
  EXPECT_NEAR(covered_difference / double{kTrials}, 0.89, 0.05);
}

TEST(BootstrapTest, IsAFunctionOfItsArguments) {
  const auto units = RandomUnits(3, 50);
  const BootstrapOptions options = {.samples = 200, .seed = 1};
  const auto text = [&](const BootstrapOptions& o) {
    return BootstrapRatio(units, o).DebugString();
  };
  EXPECT_EQ(text(options), text(options));
  EXPECT_NE(text(options), text({.samples = 200, .seed = 2}));
  const v1::Interval wide = BootstrapRatio(units, {.samples = 200, .seed = 1, .confidence = 0.99});
  const v1::Interval narrow = BootstrapRatio(units, {.samples = 200, .seed = 1, .confidence = 0.5});
  EXPECT_LT(wide.low(), narrow.low());
  EXPECT_GT(wide.high(), narrow.high());
}

TEST(BootstrapTest, PairsSharpenDifferences) {
  const auto a = RandomUnits(8, 100);
  std::vector<RatioUnit> better = a;
  for (RatioUnit& unit : better) unit.numerator -= 0.1 * unit.denominator;
  const v1::Interval shift = BootstrapDifference(a, better, {});
  EXPECT_NEAR(shift.low(), 0.1, 1e-9);
  EXPECT_NEAR(shift.high(), 0.1, 1e-9);
  const v1::Interval nothing = BootstrapDifference(a, a, {});
  EXPECT_EQ(nothing.low(), 0);
  EXPECT_EQ(nothing.high(), 0);
  const v1::Interval alone = BootstrapRatio(a, {});
  EXPECT_GT(alone.high() - alone.low(), 0.05);
}

TEST(BootstrapTest, FewUnitsGiveTheEstimate) {
  const std::vector<RatioUnit> one = {{6, 4}};
  EXPECT_EQ(BootstrapRatio(one, {}).low(), 1.5);
  EXPECT_EQ(BootstrapRatio(one, {}).high(), 1.5);
  EXPECT_TRUE(std::isnan(BootstrapRatio({}, {}).low()));
  EXPECT_TRUE(std::isnan(BootstrapDifference({}, {}, {}).high()));
  const std::vector<RatioUnit> two = {{6, 4}, {10, 4}};
  const v1::Interval interval = BootstrapRatio(two, {});
  EXPECT_EQ(interval.low(), 1.5);
  EXPECT_EQ(interval.high(), 2.5);
  const v1::Interval single = BootstrapRatio(two, {.samples = 1});
  EXPECT_EQ(single.low(), single.high());
}

// Windows without a token after their first segment have no denominator.
TEST(BootstrapTest, ResamplesWithoutADenominatorAreLeftOut) {
  const std::vector<RatioUnit> units = {{6, 4}, {0, 0}, {0, 0}};
  const v1::Interval interval = BootstrapRatio(units, {});
  EXPECT_EQ(interval.low(), 1.5);
  EXPECT_EQ(interval.high(), 1.5);
  const std::vector<RatioUnit> none(3);
  EXPECT_TRUE(std::isnan(BootstrapRatio(none, {}).low()));
}

}  // namespace bootstrap_test
}  // namespace braid
