#include "report/run_curves.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

namespace braid {
namespace run_curves_test {

std::vector<PlotPoint> Points(const std::vector<double>& ys) {
  std::vector<PlotPoint> points;
  for (const double y : ys) points.push_back({static_cast<double>(points.size()), y});
  return points;
}

TEST(SmoothTest, KeepsAStraightLineToItsEnds) {
  const std::vector<PlotPoint> line = Points({0, 1, 2, 3, 4, 5, 6});
  const std::vector<PlotPoint> smooth = Smooth(line, 5);
  ASSERT_EQ(smooth.size(), line.size());
  for (const PlotPoint& point : smooth) EXPECT_DOUBLE_EQ(point.y, point.x);
}

TEST(SmoothTest, WindowsStaySymmetricAroundValuesThatAreNotFinite) {
  const std::vector<PlotPoint> smooth = Smooth(Points({9, 8, std::nan(""), 6, 5, 4, 3}), 5);
  ASSERT_EQ(smooth.size(), 7u);
  for (const PlotPoint& point : smooth) {
    if (point.x == 2) continue;
    EXPECT_DOUBLE_EQ(point.y, 9 - point.x) << "a straight line stays one";
  }
  EXPECT_TRUE(std::isnan(smooth[2].y));
}

TEST(ForPlotTest, DrawsNothingBeyondTheLastFiniteStep) {
  for (const int64_t steps : {300, 5000}) {
    std::vector<double> ys;
    for (int64_t i = 0; i < steps; ++i) ys.push_back(i < steps / 2 ? 3.0 : NAN);
    const std::vector<PlotPoint> drawn = ForPlot(Points(ys));
    ASSERT_FALSE(drawn.empty());
    for (const PlotPoint& point : drawn) {
      EXPECT_EQ(std::isfinite(point.y), point.x < static_cast<double>(steps / 2)) << point.x;
    }
  }
}

TEST(ThinTest, KeepsTheMean) {
  std::vector<double> ys;
  for (int i = 0; i < 1000; ++i) ys.push_back(i);
  const std::vector<PlotPoint> thin = Thin(Points(ys), 10);
  ASSERT_EQ(thin.size(), 10u);
  EXPECT_DOUBLE_EQ(thin[0].y, 49.5);
  EXPECT_DOUBLE_EQ(thin[9].y, 949.5);
  EXPECT_EQ(Thin(Points({1, 2}), 10).size(), 2u);
  EXPECT_TRUE(Thin({}, 10).empty());
}

TEST(ThinExtremesTest, KeepsEverySpikeOfRandomCurves) {
  std::mt19937 random(3);
  std::normal_distribution<double> noise;
  for (int trial = 0; trial < 20; ++trial) {
    std::vector<double> ys;
    for (int i = 0; i < 3000 + trial; ++i)
      ys.push_back(i % 500 == 7 ? std::nan("") : noise(random));
    const std::vector<PlotPoint> points = Points(ys);
    const std::vector<PlotPoint> thin = ThinExtremes(points, 50);
    ASSERT_LE(thin.size(), 100u);
    for (int piece = 0; piece < 50; ++piece) {
      double low = INFINITY, high = -INFINITY;
      const size_t start = piece * ys.size() / 50, end = (piece + 1) * ys.size() / 50;
      for (size_t i = start; i < end; ++i) {
        if (std::isfinite(ys[i])) low = std::min(low, ys[i]), high = std::max(high, ys[i]);
      }
      const auto has = [&](double y) {
        return std::any_of(thin.begin(), thin.end(), [&](const PlotPoint& p) { return p.y == y; });
      };
      EXPECT_TRUE(has(low) && has(high)) << "piece " << piece;
    }
    EXPECT_TRUE(std::is_sorted(thin.begin(), thin.end(),
                               [](const PlotPoint& a, const PlotPoint& b) { return a.x < b.x; }));
  }
}

TEST(ThinExtremesTest, AnIntervalWithoutAFiniteValueIsOneNan) {
  const std::vector<PlotPoint> thin = ThinExtremes(Points(std::vector<double>(9, NAN)), 3);
  ASSERT_EQ(thin.size(), 3u);
  EXPECT_TRUE(std::isnan(thin[1].y));
}

TEST(LossDifferenceTest, ComparesTheSameSteps) {
  std::vector<v1::StepMetrics> dense(3), moe(2);
  for (int i = 0; i < 3; ++i) {
    dense[i].set_step(i + 1);
    dense[i].set_loss_after_first_segment(5);
  }
  for (int i = 0; i < 2; ++i) {
    moe[i].set_step(i + 2);
    moe[i].set_num_tokens(100 * (i + 2));
    moe[i].set_loss_after_first_segment(4.5 - i);
  }
  const std::vector<PlotPoint> difference = LossDifference(dense, moe);
  ASSERT_EQ(difference.size(), 2u);
  EXPECT_DOUBLE_EQ(difference[0].x, 200);
  EXPECT_DOUBLE_EQ(difference[0].y, 0.5);
  EXPECT_DOUBLE_EQ(difference[1].y, 1.5);
}

TEST(ValidationCurveTest, HasAPointForEveryValidation) {
  std::vector<v1::StepMetrics> steps(4);
  for (int i = 0; i < 4; ++i) steps[i].set_num_tokens(10 * i);
  steps[1].mutable_validation()->set_loss(3);
  steps[3].mutable_validation()->set_loss(3);
  steps[3].mutable_validation()->set_loss_after_first_segment(2);
  const std::vector<PlotPoint> curve = ValidationCurve(steps);
  ASSERT_EQ(curve.size(), 2u);
  EXPECT_EQ(curve[0].x, 10);
  EXPECT_EQ(curve[0].y, 3);
  EXPECT_EQ(curve[1].x, 30);
  EXPECT_EQ(curve[1].y, 2);
}

TEST(LateMeanTest, IsOfTheLastTenth) {
  std::vector<double> ys(90, 100.0);
  for (int i = 0; i < 10; ++i) ys.push_back(2);
  EXPECT_DOUBLE_EQ(LateMean(Points(ys)), 2);
  EXPECT_DOUBLE_EQ(LateMean(Points({3})), 3);
  EXPECT_TRUE(std::isnan(LateMean({})));
  EXPECT_DOUBLE_EQ(LateMean(std::vector<PlotPoint>{{1, 9}, {50, 9}, {91, 3}, {100, 5}}), 4)
      << "of tokens, not of points";
}

TEST(MedianSpeedTest, IgnoresSlowSteps) {
  std::vector<v1::StepMetrics> steps(5);
  for (int i = 0; i < 5; ++i) steps[i].set_tokens_per_second(i == 0 ? 1 : 1000);
  EXPECT_DOUBLE_EQ(MedianSpeed(steps), 1000);
  EXPECT_TRUE(std::isnan(MedianSpeed({})));
}

}  // namespace run_curves_test
}  // namespace braid
