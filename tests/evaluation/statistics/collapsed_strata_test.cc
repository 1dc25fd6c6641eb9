#include "evaluation/statistics/collapsed_strata.h"

#include <gtest/gtest.h>

#include <numeric>
#include <random>

namespace braid {
namespace collapsed_strata_test {

// The windows of one domain: nats and tokens of each.
struct Domain {
  std::vector<double> nats = {};
  std::vector<double> tokens = {};
};

double Sum(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

// Losses per token with mean `mean` and deviation 1, on windows of different lengths.
Domain RandomDomain(std::mt19937_64& random, size_t windows, double mean = 0) {
  std::uniform_int_distribution<int> tokens(100, 500);
  std::normal_distribution<double> loss(mean, 1);
  Domain domain;
  for (size_t w = 0; w < windows; ++w) {
    domain.tokens.push_back(tokens(random));
    domain.nats.push_back(domain.tokens.back() * loss(random));
  }
  return domain;
}

// Returns `sign` times the mean over the tokens of some domains, one stratum per domain.
SeedMeasurement GroupOf(const std::vector<Domain>& domains, double sign = 1) {
  double tokens = 0;
  for (const Domain& domain : domains) tokens += Sum(domain.tokens);
  SeedMeasurement measurement;
  for (const Domain& domain : domains) {
    measurement.push_back({.terms = {{.coefficient = sign * Sum(domain.tokens) / tokens,
                                      .numerators = domain.nats,
                                      .denominators = domain.tokens}}});
  }
  return measurement;
}

SeedMeasurement Both(SeedMeasurement a, const SeedMeasurement& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

std::vector<Domain> RandomDomains(std::mt19937_64& random, const std::vector<size_t>& windows) {
  std::vector<Domain> domains;
  for (const size_t each : windows) domains.push_back(RandomDomain(random, each));
  return domains;
}

std::vector<int64_t> UnitsOf(const SeedMeasurement& measurement) {
  std::vector<int64_t> units;
  for (const Stratum& stratum : measurement) units.push_back(stratum.num_units());
  return units;
}

SeedMeasurement Collapse(const SeedMeasurement& measurement) {
  return CollapseSingleUnits(std::vector<SeedMeasurement>{measurement}).front();
}

TEST(CollapsedStrataTest, DomainsOfOneWindowBecomeOneStratumWithTheSameEffect) {
  std::mt19937_64 random(1);
  const SeedMeasurement measurement = GroupOf(RandomDomains(random, {1, 5, 1, 9, 1}));
  const SeedMeasurement collapsed = Collapse(measurement);
  EXPECT_EQ(UnitsOf(collapsed), (std::vector<int64_t>{3, 5, 9}));
  EXPECT_NEAR(EffectOf(collapsed), EffectOf(measurement), 1e-12);
}

TEST(CollapsedStrataTest, ASingleStratumJoinsTheSmallestCompatibleOne) {
  std::mt19937_64 random(2);
  const SeedMeasurement measurement = GroupOf(RandomDomains(random, {9, 4, 1, 4}));
  const SeedMeasurement collapsed = Collapse(measurement);
  EXPECT_EQ(UnitsOf(collapsed), (std::vector<int64_t>{9, 5, 4}));
  EXPECT_NEAR(EffectOf(collapsed), EffectOf(measurement), 1e-12);
}

TEST(CollapsedStrataTest, GroupsThatAreSetAgainstEachOtherStayApart) {
  std::mt19937_64 random(3);
  const SeedMeasurement measurement = Both(GroupOf(RandomDomains(random, {1, 1, 3})),
                                           GroupOf(RandomDomains(random, {1, 7, 1}), -1));
  const SeedMeasurement collapsed = Collapse(measurement);
  EXPECT_EQ(UnitsOf(collapsed), (std::vector<int64_t>{2, 3, 2, 7}));
  EXPECT_NEAR(EffectOf(collapsed), EffectOf(measurement), 1e-12);
}

TEST(CollapsedStrataTest, AStratumWithoutCompatibleOnesStays) {
  std::mt19937_64 random(4);
  const SeedMeasurement measurement =
      Both(GroupOf(RandomDomains(random, {1})), GroupOf(RandomDomains(random, {6}), -1));
  EXPECT_EQ(UnitsOf(Collapse(measurement)), (std::vector<int64_t>{1, 6}));
}

TEST(CollapsedStrataTest, EveryTermMustAgree) {
  std::mt19937_64 random(5);
  SeedMeasurement measurement = GroupOf(RandomDomains(random, {1, 1, 1}));
  const SeedMeasurement later = GroupOf(RandomDomains(random, {1, 1}), -1);
  measurement[0].terms.push_back(later[0].terms[0]);
  measurement[2].terms.push_back(later[1].terms[0]);
  const SeedMeasurement collapsed = Collapse(measurement);
  // The stratum without a second term has no compatible one.
  EXPECT_EQ(UnitsOf(collapsed), (std::vector<int64_t>{2, 1}));
  EXPECT_NEAR(EffectOf(collapsed), EffectOf(measurement), 1e-12);
}

TEST(CollapsedStrataTest, TheEffectIsThatOfTheDomainsToTheBit) {
  std::mt19937_64 random(6);
  for (int trial = 0; trial < 20; ++trial) {
    const std::vector<size_t> windows = {1, 5, 1, 1, 9, 1};
    const std::vector<SeedMeasurement> seeds = {GroupOf(RandomDomains(random, windows))};
    const EffectEstimate estimate = EstimateEffect(seeds, {.samples = 50});
    EXPECT_EQ(estimate.effect, EffectOf(seeds.front()));
    EXPECT_EQ(estimate.num_units, 18);
    EXPECT_LT(estimate.low, estimate.effect);
    EXPECT_GT(estimate.high, estimate.effect);
  }
}

// Returns the share of the trials whose interval contains the true effect, 0, when `num_single` of
// the windows are the only ones of their domains, whose means deviate from 0 by `between`.
double Coverage(uint64_t seed, size_t num_single, double between) {
  constexpr int kTrials = 1000;
  std::mt19937_64 random(seed);
  std::normal_distribution<double> mean(0, between);
  int covered = 0;
  for (int trial = 0; trial < kTrials; ++trial) {
    std::vector<Domain> domains = RandomDomains(random, {20, 20, 20});
    for (size_t d = 0; d < num_single; ++d) {
      domains.push_back(RandomDomain(random, 1, between > 0 ? mean(random) : 0));
    }
    const EffectEstimate estimate =
        EstimateEffect(std::vector<SeedMeasurement>{GroupOf(domains)},
                       {.samples = 300, .seed = static_cast<uint64_t>(trial)});
    covered += estimate.low <= 0 && estimate.high >= 0;
  }
  return static_cast<double>(covered) / kTrials;
}

TEST(CollapsedStrataTest, IntervalsHoldTheTrueEffectHoweverManyDomainsHaveOneWindow) {
  // The quantiles of 300 resamples of 60 windows cover 94 %, whatever their domains; the bounds are
  // three standard errors of 1000 trials around that.
  for (const size_t num_single : {0, 3, 20, 60}) {
    for (const double between : {0, 1}) {
      const double coverage = Coverage(7, num_single, between);
      EXPECT_GE(coverage, 0.917) << num_single << " " << between;
      EXPECT_LE(coverage, 0.963) << num_single << " " << between;
    }
  }
}

}  // namespace collapsed_strata_test
}  // namespace braid
