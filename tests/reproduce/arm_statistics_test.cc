#include "reproduce/arm_statistics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace braid {
namespace arm_statistics_test {

std::vector<v1::StepMetrics> Steps(const std::vector<double>& losses) {
  std::vector<v1::StepMetrics> metrics(losses.size());
  for (size_t i = 0; i < losses.size(); ++i) {
    metrics[i].set_step(static_cast<int64_t>(i) + 1);
    metrics[i].set_num_tokens(2048 * (static_cast<int64_t>(i) + 1));
    // The loss with the first segment must be ignored.
    metrics[i].set_loss(99);
    metrics[i].set_loss_after_first_segment(losses[i]);
  }
  return metrics;
}

std::vector<double> FallingLosses(std::mt19937_64& random, int count) {
  std::normal_distribution<double> noise(0, 0.3);
  std::vector<double> losses;
  for (int i = 0; i < count; ++i) losses.push_back(8 * std::exp(-0.02 * i) + noise(random));
  return losses;
}

double NaiveSmoothed(const std::vector<double>& losses, int at, int half_width) {
  double sum = 0;
  int count = 0;
  for (int i = 0; i < static_cast<int>(losses.size()); ++i) {
    if (std::abs(i - at) > half_width) continue;
    sum += losses[i];
    ++count;
  }
  return sum / count;
}

TEST(ArmStatisticsTest, TokensToReachIsWhereTheSmoothedCurveStaysBelow) {
  std::mt19937_64 random(1);
  for (int trial = 0; trial < 30; ++trial) {
    const std::vector<double> losses = FallingLosses(random, 80);
    const double target = 1 + 0.1 * trial;
    std::optional<int64_t> expected;
    for (int i = static_cast<int>(losses.size()) - 1; i >= 0; --i) {
      if (NaiveSmoothed(losses, i, 3) > target) break;
      expected = 2048 * (i + 1);
    }
    EXPECT_EQ(TokensToReach(Steps(losses), target, 3), expected) << trial;
  }
}

TEST(ArmStatisticsTest, FinalLossIsTheMeanOfTheLastTenth) {
  std::vector<double> losses(20, 7.0);
  losses[18] = 3;
  losses[19] = 4;
  EXPECT_DOUBLE_EQ(FinalLoss(Steps(losses)), 3.5);
  // Answers are not divided by segments.
  v1::StepMetrics step;
  step.set_step(1);
  step.set_loss(2);
  EXPECT_DOUBLE_EQ(FinalLoss(std::vector<v1::StepMetrics>{step}), 2);
}

TEST(ArmStatisticsTest, GainByTenthsPairsStepsByNumber) {
  std::mt19937_64 random(2);
  const std::vector<double> dense = FallingLosses(random, 100);
  const std::vector<double> moe = FallingLosses(random, 100);
  auto dense_steps = Steps(dense);
  dense_steps.erase(dense_steps.begin() + 57);
  const std::vector<double> gains = GainByTenths(dense_steps, Steps(moe));
  ASSERT_EQ(gains.size(), 10);
  for (int part = 0; part < 10; ++part) {
    double sum = 0;
    int count = 0;
    for (int i = 10 * part; i < 10 * part + 10; ++i) {
      if (i == 57) continue;
      sum += dense[i] - moe[i];
      ++count;
    }
    EXPECT_NEAR(gains[part], sum / count, 1e-12) << part;
  }
}

TEST(ArmStatisticsTest, CostsAreOfAStepAndOfTheRun) {
  ArmResult result{.metrics = Steps({1, 1, 1})};
  for (const auto& cost : {LogStepSeconds, LogStepWork, LogPeakMemory}) {
    EXPECT_FALSE(cost(result).has_value());
  }
  for (int i = 0; i < 3; ++i) {
    result.metrics[i].set_step_seconds(1 + i);
    result.metrics[i].set_gflops(10);
    result.metrics[i].set_peak_resident_mb(100 + i);
  }
  result.metrics[2].set_step_seconds(9);
  EXPECT_DOUBLE_EQ(*LogStepSeconds(result), std::log(2.0));
  EXPECT_DOUBLE_EQ(*LogStepWork(result), std::log(10 * (1 + 2 + 9) / 3.0));
  EXPECT_DOUBLE_EQ(*LogPeakMemory(result), std::log(102.0));
}

TEST(ArmStatisticsTest, ActiveShareIsAveragedOverLayersAndTheEnd) {
  ArmResult result{.num_experts = 8, .metrics = Steps(std::vector<double>(40, 1.0))};
  for (const int step : {10, 38, 40}) {
    for (int layer = 0; layer < 2; ++layer) {
      // Step 10 is too early to count.
      result.metrics[step - 1].add_routing()->set_active_experts(step == 10 ? 8
                                                                            : step - 36 + layer);
    }
  }
  EXPECT_DOUBLE_EQ(*ActiveShare(result), (2 + 3 + 4 + 5) / 4.0 / 8);
  result.num_experts = 1;
  EXPECT_FALSE(ActiveShare(result).has_value());
  EXPECT_FALSE(ActiveShare({.num_experts = 8}).has_value());
}

TEST(ArmStatisticsTest, DivergenceIsComputedPerLayer) {
  const ArmResult result{.routing = {{"a", {{0.5, 0.5}, {1, 0}}}, {"b", {{0.5, 0.5}, {0, 1}}}}};
  const std::vector<double> divergence = DivergenceByLayer(result);
  ASSERT_EQ(divergence.size(), 2);
  EXPECT_DOUBLE_EQ(divergence[0], 0);
  EXPECT_NEAR(divergence[1], std::log(2.0), 1e-12);
  EXPECT_TRUE(DivergenceByLayer({.routing = {{"a", {{0.5, 0.5}}}}}).empty());
}

}  // namespace arm_statistics_test
}  // namespace braid
