#include "reproduce/contrasts.h"

#include <gtest/gtest.h>

#include <random>

namespace braid {
namespace contrasts_test {

const std::vector<std::string> kDomains = {"books", "code", "law"};

// Windows of one split, on which every arm and seed is scored.
HeldoutScore RandomScore(std::mt19937_64& random, const std::vector<int>& num_windows) {
  std::uniform_real_distribution<double> loss(1, 5);
  HeldoutScore score{.first_positions = 64};
  for (size_t d = 0; d < kDomains.size(); ++d) {
    DomainWindows& domain = score.domains.emplace_back(DomainWindows{.domain = kDomains[d]});
    for (int w = 0; w < num_windows[d]; ++w) {
      const int64_t tokens = 100 + 37 * w % 300;
      domain.windows.push_back({loss(random) * 64, 64, loss(random) * tokens, tokens});
    }
  }
  return score;
}

ArmResult RandomRun(std::mt19937_64& random, const std::string& name, uint64_t seed) {
  ArmResult result{.arm = name, .seed = seed};
  result.heldout = {RandomScore(random, {9, 40, 3})};
  std::uniform_real_distribution<double> loss(1, 5);
  for (int step = 1; step <= 60; ++step) {
    v1::StepMetrics& metrics = result.metrics.emplace_back();
    metrics.set_step(step);
    metrics.set_loss(99);
    metrics.set_loss_after_first_segment(loss(random));
  }
  return result;
}

Evidence RandomEvidence(uint64_t seed) {
  std::mt19937_64 random(seed);
  Evidence evidence;
  for (uint64_t run = 0; run < 3; ++run) {
    for (const char* name : {"dense", "moe", "prefix"}) {
      evidence.results.push_back(RandomRun(random, name, run));
    }
  }
  return evidence;
}

// Returns the nats per token of an arm over domains.
double NaiveLoss(const Evidence& evidence, const std::string& name, uint64_t seed,
                 const std::set<std::string>& domains, bool first) {
  double nats = 0;
  double tokens = 0;
  for (const ArmResult& result : evidence.results) {
    if (result.arm != name || result.seed != seed) continue;
    for (const DomainWindows& domain : result.heldout.front().domains) {
      if (!domains.contains(domain.domain)) continue;
      for (const WindowLoss& window : domain.windows) {
        nats += first ? window.first_loss : window.later_loss;
        tokens += static_cast<double>(first ? window.first_tokens : window.later_tokens);
      }
    }
  }
  return nats / tokens;
}

TEST(ContrastsTest, HeldoutEffectIsTheDifferenceOfMeanLosses) {
  const std::set<std::string> all(kDomains.begin(), kDomains.end());
  for (uint64_t trial = 0; trial < 5; ++trial) {
    const Evidence evidence = RandomEvidence(trial);
    const auto estimate = HeldoutEffect(evidence, {.arms = {{+1, "dense"}, {-1, "moe"}}}, {});
    ASSERT_TRUE(estimate.ok()) << estimate.status();
    ASSERT_EQ(estimate->by_seed.size(), 3);
    double mean = 0;
    for (uint64_t seed = 0; seed < 3; ++seed) {
      const double expected = NaiveLoss(evidence, "dense", seed, all, false) -
                              NaiveLoss(evidence, "moe", seed, all, false);
      EXPECT_NEAR(estimate->by_seed[seed], expected, 1e-12);
      mean += expected / 3;
    }
    EXPECT_NEAR(estimate->effect, mean, 1e-12);
    EXPECT_LT(estimate->low, mean);
    EXPECT_GT(estimate->high, mean);
  }
}

TEST(ContrastsTest, DomainsAndPositionsCanBeContrasted) {
  const Evidence evidence = RandomEvidence(11);
  const HeldoutContrast contrast{.arms = {{+1, "dense"}, {-1, "prefix"}},
                                 .positions = {{+1, true}, {-1, false}},
                                 .groups = {{+1, {"code", "law"}}, {-1, {"books"}}}};
  const auto estimate = HeldoutEffect(evidence, contrast, {});
  ASSERT_TRUE(estimate.ok()) << estimate.status();
  for (uint64_t seed = 0; seed < 3; ++seed) {
    double expected = 0;
    for (const auto& [sign, name] : {std::pair(1, "dense"), {-1, "prefix"}}) {
      for (const bool first : {true, false}) {
        const double position = first ? 1 : -1;
        expected += sign * position *
                    (NaiveLoss(evidence, name, seed, {"code", "law"}, first) -
                     NaiveLoss(evidence, name, seed, {"books"}, first));
      }
    }
    EXPECT_NEAR(estimate->by_seed[seed], expected, 1e-12);
  }
}

TEST(ContrastsTest, DomainsOfOneWindowAddTheirError) {
  std::mt19937_64 random(12);
  Evidence evidence;
  for (const char* name : {"dense", "moe"}) {
    evidence.results.push_back(RandomRun(random, name, 0));
    evidence.results.back().heldout = {RandomScore(random, {1, 1, 1})};
  }
  const HeldoutContrast contrast{.arms = {{+1, "dense"}, {-1, "moe"}},
                                 .positions = {{+1, true}, {-1, false}}};
  const auto estimate = HeldoutEffect(evidence, contrast, {});
  ASSERT_TRUE(estimate.ok()) << estimate.status();
  EXPECT_TRUE(estimate->has_interval);
  EXPECT_EQ(estimate->num_units, 3);
  EXPECT_LT(estimate->low, estimate->effect);
  EXPECT_GT(estimate->high, estimate->effect);
}

TEST(ContrastsTest, TrainingEffectIsTheMeanDifferenceOfPairedSteps) {
  const Evidence evidence = RandomEvidence(3);
  const TrainingContrast contrast{.arms = {{+1, "dense"}, {-1, "moe"}},
                                  .ranges = {{+1, 0.5, 1.0}, {-1, 0.0, 0.2}}};
  const auto estimate = TrainingEffect(evidence, contrast, {});
  ASSERT_TRUE(estimate.ok()) << estimate.status();
  const auto& dense = evidence.results[0].metrics;
  const auto& moe = evidence.results[1].metrics;
  double expected = 0;
  for (int step = 1; step <= 60; ++step) {
    const double difference =
        dense[step - 1].loss_after_first_segment() - moe[step - 1].loss_after_first_segment();
    if (step > 30) expected += difference / 30;
    if (step <= 12) expected -= difference / 12;
  }
  EXPECT_NEAR(estimate->by_seed[0], expected, 1e-12);
}

TEST(ContrastsTest, OnlySeedsThatAllArmsHaveAreCompared) {
  Evidence evidence = RandomEvidence(4);
  std::erase_if(evidence.results,
                [](const ArmResult& result) { return result.arm == "moe" && result.seed == 1; });
  const auto estimate = HeldoutEffect(evidence, {.arms = {{+1, "dense"}, {-1, "moe"}}}, {});
  ASSERT_TRUE(estimate.ok());
  EXPECT_EQ(estimate->by_seed.size(), 2);
}

TEST(ContrastsTest, ErrorsNameWhatIsMissing) {
  Evidence evidence = RandomEvidence(5);
  const auto none = HeldoutEffect(evidence, {.arms = {{+1, "dense"}, {-1, "moe", v1::RANDOM}}}, {});
  EXPECT_EQ(none.status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(none.status().message(), "no run of moe in random order");
  const auto unscored =
      HeldoutEffect(evidence, {.arms = {{+1, "moe", v1::SIMILARITY, ScoredRouting::kUniform}}}, {});
  EXPECT_EQ(unscored.status().message(),
            "the run of moe, seed 0, was not scored in the required way");
  // Dense and prefix have seeds in common, but none of them has a run of moe.
  std::erase_if(evidence.results,
                [](const ArmResult& result) { return (result.arm == "moe") == (result.seed < 2); });
  const auto apart = HeldoutEffect(
      evidence, {.arms = {{+1, "dense"}, {-1, "moe"}, {-1, "dense"}, {+1, "prefix"}}}, {});
  EXPECT_EQ(apart.status().message(), "no seed with runs of all of dense, moe, prefix");
}

TEST(ContrastsTest, OtherWindowsCannotBePaired) {
  Evidence evidence = RandomEvidence(6);
  evidence.results[1].heldout[0].domains[2].windows.pop_back();
  const auto estimate = HeldoutEffect(evidence, {.arms = {{+1, "dense"}, {-1, "moe"}}}, {});
  EXPECT_EQ(estimate.status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST(ContrastsTest, AGroupWithoutHeldoutTextIsNotMeasured) {
  const Evidence evidence = RandomEvidence(7);
  const auto estimate = HeldoutEffect(
      evidence, {.arms = {{1, "moe"}}, .groups = {{1, {"code"}}, {-1, {"poetry"}}}}, {});
  EXPECT_EQ(estimate.status().code(), absl::StatusCode::kNotFound);
}

TEST(ContrastsTest, StatisticsAreComparedPerSeed) {
  const Evidence evidence = RandomEvidence(8);
  const auto by_seed = [](const ArmResult& result) -> std::optional<double> {
    if (result.seed == 2) return std::nullopt;
    return result.arm == "moe" ? 10.0 + static_cast<double>(result.seed) : 3.0;
  };
  const auto estimate = StatisticEffect(evidence, {{+1, "moe"}, {-1, "dense"}}, by_seed, {});
  ASSERT_TRUE(estimate.ok());
  EXPECT_EQ(estimate->by_seed, (std::vector<double>{7, 8}));
}

TEST(ContrastsTest, BlocksHaveEightWindowsOrAQuarterOfTheDomain) {
  EXPECT_EQ(WindowsOfBlock(100), 8);
  EXPECT_EQ(WindowsOfBlock(20), 5);
  EXPECT_EQ(WindowsOfBlock(3), 1);
  EXPECT_EQ(StepsOfBlock(480), 9);
  EXPECT_EQ(StepsOfBlock(10), 1);
}

}  // namespace contrasts_test
}  // namespace braid
