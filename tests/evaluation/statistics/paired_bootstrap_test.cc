#include "evaluation/statistics/paired_bootstrap.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <random>

namespace braid {
namespace paired_bootstrap_test {

Stratum EqualUnits(const std::vector<double>& values, double coefficient = 1) {
  return {.terms = {{.coefficient = coefficient,
                     .numerators = values,
                     .denominators = std::vector<double>(values.size(), 1.0)}}};
}

std::vector<double> Normals(std::mt19937_64& random, size_t count, double mean, double deviation) {
  std::normal_distribution<double> normal(mean, deviation);
  std::vector<double> values(count);
  for (double& value : values) value = normal(random);
  return values;
}

double NaiveMean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

double NaiveDeviation(const std::vector<double>& values) {
  double squares = 0;
  for (const double value : values) squares += std::pow(value - NaiveMean(values), 2);
  return std::sqrt(squares / static_cast<double>(values.size() - 1));
}

TEST(PairedBootstrapTest, EffectIsTheSumOfRatiosOfSums) {
  std::mt19937_64 random(1);
  for (int trial = 0; trial < 20; ++trial) {
    SeedMeasurement measurement;
    double expected = 0;
    for (int s = 0; s < 3; ++s) {
      const std::vector<double> numerators = Normals(random, 7, 0, 1);
      const std::vector<double> denominators = Normals(random, 7, 10, 1);
      const double coefficient = s - 1.5;
      measurement.push_back({.terms = {{coefficient, numerators, denominators}}});
      expected += coefficient * NaiveMean(numerators) / NaiveMean(denominators);
    }
    EXPECT_NEAR(EffectOf(measurement), expected, 1e-12);
  }
}

TEST(PairedBootstrapTest, SeedsAloneGiveStudentsInterval) {
  const std::vector<double> seeds = {0.10, 0.13, 0.11};
  const EffectEstimate estimate = EstimateOverSeeds(seeds, {});
  const double half = 4.302653 * NaiveDeviation(seeds) / std::sqrt(3.0);
  EXPECT_NEAR(estimate.effect, NaiveMean(seeds), 1e-12);
  EXPECT_NEAR(estimate.low, NaiveMean(seeds) - half, 1e-7);
  EXPECT_NEAR(estimate.high, NaiveMean(seeds) + half, 1e-7);
}

TEST(PairedBootstrapTest, WindowsAloneGiveTheUnbiasedErrorOfAMean) {
  std::mt19937_64 random(2);
  for (const size_t units : {6, 60}) {
    const std::vector<double> values = Normals(random, units, 0.1, 1);
    const EffectEstimate estimate =
        EstimateEffect(std::vector<SeedMeasurement>{{EqualUnits(values)}}, {.samples = 20000});
    const double error = NaiveDeviation(values) / std::sqrt(static_cast<double>(units));
    EXPECT_NEAR((estimate.high - estimate.low) / 2, 1.96 * error, 0.08 * error) << units;
    EXPECT_EQ(estimate.num_units, static_cast<int64_t>(units));
  }
}

TEST(PairedBootstrapTest, WindowsThatSeedsShareCountOnce) {
  std::mt19937_64 random(3);
  const SeedMeasurement seed = {EqualUnits(Normals(random, 40, 0, 1))};
  const EffectEstimate one = EstimateEffect(std::vector<SeedMeasurement>{seed}, {});
  const EffectEstimate four =
      EstimateEffect(std::vector<SeedMeasurement>{seed, seed, seed, seed}, {});
  EXPECT_NEAR(one.low, four.low, 1e-12);
  EXPECT_NEAR(one.high, four.high, 1e-12);
}

TEST(PairedBootstrapTest, AddsTheErrorOfSeedsToThatOfWindows) {
  std::mt19937_64 random(4);
  const std::vector<double> windows = Normals(random, 50, 0, 1);
  std::vector<SeedMeasurement> seeds;
  const std::vector<double> shifts = Normals(random, 12, 0, 1);
  for (const double shift : shifts) {
    std::vector<double> values = windows;
    for (double& value : values) value += shift;
    seeds.push_back({EqualUnits(values)});
  }
  const EffectEstimate estimate = EstimateEffect(seeds, {.samples = 20000});
  const double of_windows = NaiveDeviation(windows) / std::sqrt(50.0);
  const double of_seeds = NaiveDeviation(shifts) / std::sqrt(12.0);
  // Student's t with 11 degrees of freedom, 2.201, has 1.12 times the normal's tails.
  const double expected = std::hypot(1.96 * of_windows, 2.201 * of_seeds);
  EXPECT_NEAR((estimate.high - estimate.low) / 2, expected, 0.04 * expected);
}

TEST(PairedBootstrapTest, DomainsKeepTheirShare) {
  const SeedMeasurement constant = {EqualUnits(std::vector<double>(9, 5.0), 0.25),
                                    EqualUnits(std::vector<double>(30, 1.0), 0.75)};
  const EffectEstimate estimate = EstimateEffect(std::vector<SeedMeasurement>{constant}, {});
  EXPECT_NEAR(estimate.effect, 2.0, 1e-12);
  EXPECT_NEAR(estimate.low, 2.0, 1e-12);
  EXPECT_NEAR(estimate.high, 2.0, 1e-12);
}

TEST(PairedBootstrapTest, TheSameArgumentsGiveTheSameBits) {
  std::mt19937_64 random(5);
  const SeedMeasurement seed = {EqualUnits(Normals(random, 20, 0, 1))};
  const EffectEstimate a = EstimateEffect(std::vector<SeedMeasurement>{seed}, {.seed = 9});
  const EffectEstimate b = EstimateEffect(std::vector<SeedMeasurement>{seed}, {.seed = 9});
  EXPECT_EQ(a.low, b.low);
  EXPECT_EQ(a.high, b.high);
  EXPECT_NE(a.low, EstimateEffect(std::vector<SeedMeasurement>{seed}, {.seed = 10}).low);
}

TEST(PairedBootstrapTest, WithoutASecondUnitOrSeedThereIsNoInterval) {
  EXPECT_FALSE(EstimateEffect(std::vector<SeedMeasurement>{{EqualUnits({1})}}, {}).has_interval);
  EXPECT_FALSE(EstimateOverSeeds(std::vector{1.0}, {}).has_interval);
  EXPECT_TRUE(EstimateEffect(std::vector<SeedMeasurement>{{EqualUnits({1})}, {EqualUnits({2})}}, {})
                  .has_interval);
}

// Windows with errors shared by all seeds, seeds with their own errors, and residual errors.
std::vector<SeedMeasurement> Simulate(std::mt19937_64& random, int num_seeds, double seed_error) {
  constexpr int kDomains = 3;
  constexpr int kBlocks = 12;
  std::vector<std::vector<double>> windows;
  for (int d = 0; d < kDomains; ++d) windows.push_back(Normals(random, kBlocks, 0, 1));
  std::vector<SeedMeasurement> seeds;
  for (const double shift : Normals(random, num_seeds, 0, seed_error)) {
    SeedMeasurement& seed = seeds.emplace_back();
    for (int d = 0; d < kDomains; ++d) {
      std::vector<double> values = Normals(random, kBlocks, shift, 0.5);
      for (int b = 0; b < kBlocks; ++b) values[b] += windows[d][b];
      seed.push_back(EqualUnits(values, 1.0 / kDomains));
    }
  }
  return seeds;
}

TEST(PairedBootstrapTest, IntervalsContainTheTrueEffectAtTheirConfidenceLevel) {
  constexpr int kTrials = 400;
  std::mt19937_64 random(6);
  for (const double seed_error : {0.0, 0.1, 0.5}) {
    int covered = 0;
    int above = 0;
    for (int trial = 0; trial < kTrials; ++trial) {
      const EffectEstimate estimate = EstimateEffect(
          Simulate(random, 3, seed_error), {.samples = 300, .seed = static_cast<uint64_t>(trial)});
      covered += estimate.low <= 0 && estimate.high >= 0;
      above += estimate.low > 0;
    }
    // Three standard errors of 400 trials below 95 %, and above 2.5 %.
    EXPECT_GE(covered, 0.917 * kTrials) << seed_error;
    EXPECT_LE(above, 0.049 * kTrials) << seed_error;
  }
}

TEST(PairedBootstrapTest, BlockSumsKeepTheRest) {
  const std::vector<double> values = {1, 2, 3, 4, 5, 6, 7};
  EXPECT_EQ(BlockSums(values, 3), (std::vector<double>{6, 15, 7}));
  EXPECT_EQ(BlockSums(values, 1), values);
  EXPECT_TRUE(BlockSums({}, 3).empty());
}

}  // namespace paired_bootstrap_test
}  // namespace braid
