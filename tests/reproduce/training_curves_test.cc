#include "reproduce/training_curves.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace braid {
namespace training_curves_test {

constexpr int kSteps = 1000;

// Losses fall on a line, so that smoothing and thinning change nothing: `start` minus x / 1e6.
ArmResult LineOf(const std::string& arm, uint64_t seed, double start) {
  ArmResult result{.arm = arm, .seed = seed};
  for (int step = 1; step <= kSteps; ++step) {
    v1::StepMetrics& metrics = result.metrics.emplace_back();
    metrics.set_step(step);
    metrics.set_num_tokens(100 * step);
    metrics.set_loss_after_first_segment(start - 100e-6 * step);
  }
  return result;
}

TEST(TrainingCurvesTest, MeanCurveHasThePointsOfAllCurves) {
  std::mt19937 random(1);
  std::vector<std::vector<PlotPoint>> curves(3);
  for (auto& curve : curves) {
    for (int x = 0; x < 50; ++x) {
      if (random() % 4 > 0) curve.push_back({1.0 * x, 1.0 * static_cast<double>(random() % 100)});
    }
  }
  std::vector<PlotPoint> expected;
  for (int x = 0; x < 50; ++x) {
    double sum = 0;
    int count = 0;
    for (const auto& curve : curves) {
      for (const PlotPoint& point : curve) {
        if (point.x != x) continue;
        sum += point.y;
        ++count;
      }
    }
    if (count == 3) expected.push_back({1.0 * x, sum / 3});
  }
  const std::vector<PlotPoint> mean = MeanCurve(curves);
  ASSERT_EQ(mean.size(), expected.size());
  for (size_t i = 0; i < mean.size(); ++i) {
    EXPECT_EQ(mean[i].x, expected[i].x);
    EXPECT_DOUBLE_EQ(mean[i].y, expected[i].y);
  }
}

TEST(TrainingCurvesTest, LossesAreAveragedOverSeeds) {
  const Evidence evidence{.results = {LineOf("moe", 0, 3), LineOf("moe", 1, 5)}, .domains = {}};
  const ClaimSeries series = LossCurveOf(evidence, "moe", {.name = "loss"});
  EXPECT_EQ(series.name, "moe");
  EXPECT_EQ(series.figure.name, "loss");
  ASSERT_EQ(series.values.size(), static_cast<size_t>(kCurvePoints));
  for (size_t i = 0; i < series.values.size(); ++i) {
    EXPECT_NEAR(series.values[i], 4 - series.x[i] / 1e6, 1e-9);
  }
  EXPECT_TRUE(LossCurveOf(evidence, "dense", {}).values.empty());
}

TEST(TrainingCurvesTest, GainsNeedBothArmsOfASeed) {
  const Evidence evidence{
      .results = {LineOf("moe", 0, 3), LineOf("moe", 1, 5), LineOf("dense", 1, 5.25)},
      .domains = {}};
  const ClaimSeries series = GainCurveOf(evidence, "dense", "moe", {});
  ASSERT_FALSE(series.values.empty());
  for (const double gain : series.values) EXPECT_NEAR(gain, 0.25, 1e-9);
  const ClaimSeries tenths = GainByTenthsOf(evidence, "dense", "moe", v1::SIMILARITY, "gain", {});
  ASSERT_EQ(tenths.values.size(), 10u);
  EXPECT_DOUBLE_EQ(tenths.x.front(), 5);
  EXPECT_DOUBLE_EQ(tenths.x.back(), 95);
  EXPECT_NEAR(tenths.values[4], 0.25, 1e-9);
}

TEST(TrainingCurvesTest, ValidationsArePairedByShareOfTheRun) {
  Evidence evidence{.results = {LineOf("moe", 0, 3), LineOf("moe", 1, 3)}, .domains = {}};
  for (size_t i = 0; i < 2; ++i) {
    evidence.results.push_back(evidence.results[i]);
    evidence.results.back().order = v1::RANDOM;
  }
  for (ArmResult& result : evidence.results) {
    for (v1::StepMetrics& step : result.metrics) {
      // Only one order has a validation in the middle.
      const bool middle = step.step() == 500 && result.order == v1::RANDOM;
      if (!middle && step.step() % 400 != 0) continue;
      for (const double loss : {2, 4}) {
        step.mutable_validation()->add_domains()->set_loss_after_first_segment(
            loss + (result.order == v1::RANDOM ? 0.5 + static_cast<double>(result.seed) : 0));
      }
    }
  }
  const ClaimSeries gain =
      ValidationGainOf(evidence, {1, "moe", v1::RANDOM}, {-1, "moe", v1::SIMILARITY}, "moe", {});
  EXPECT_EQ(gain.x, (std::vector<double>{40, 80}));
  EXPECT_EQ(gain.values, (std::vector<double>{1, 1}));
}

TEST(TrainingCurvesTest, UtilizationIsTheMeanOverSeedsAndLayers) {
  Evidence evidence{.results = {LineOf("moe", 0, 3), LineOf("moe", 1, 3)}, .domains = {}};
  for (ArmResult& result : evidence.results) {
    result.num_experts = 8;
    for (v1::StepMetrics& step : result.metrics) {
      if (step.step() % 100 != 0) continue;
      for (const int active : {2, 4}) {
        step.add_routing()->set_active_experts(active + 2 * static_cast<int>(result.seed));
      }
    }
  }
  const ClaimSeries series = UtilizationCurveOf(evidence, "moe", {});
  ASSERT_EQ(series.values.size(), 10u);
  EXPECT_DOUBLE_EQ(series.x[0], 100 * 100);
  EXPECT_DOUBLE_EQ(series.values[0], (2 + 4 + 4 + 6) / 4.0 / 8);
}

}  // namespace training_curves_test
}  // namespace braid
