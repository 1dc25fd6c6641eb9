#include "trainer/report/run_curves.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/trainer/report/synthetic_run.h"

namespace braid {
namespace {

using testing::ElementsAre;
using testing::Pair;

std::vector<PlotPoint> Points(const std::vector<double>& ys) {
  std::vector<PlotPoint> points;
  for (const double y : ys) points.push_back({static_cast<double>(points.size()), y});
  return points;
}

TEST(SmoothTest, KeepsAStraightLineToItsEnds) {
  const std::vector<PlotPoint> line = Points({0, 1, 2, 3, 4, 5, 6});
  for (const PlotPoint& point : Smooth(line, 5)) EXPECT_DOUBLE_EQ(point.y, point.x);
}

TEST(SmoothTest, LeavesOutWhatIsNotFinite) {
  const std::vector<PlotPoint> smooth = Smooth(Points({1, std::nan(""), 3, 3, 3}), 3);
  EXPECT_DOUBLE_EQ(smooth[1].y, 2);
  EXPECT_TRUE(std::isnan(Smooth(Points({std::nan("")}), 3)[0].y));
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

TEST(PairRunsTest, PairsWhatDiffersOnlyInTheExperts) {
  std::vector<ReportRun> runs = SyntheticRuns();
  EXPECT_THAT(PairRuns(runs), ElementsAre(Pair(0, 1), Pair(2, 3)));
  runs[1].spec.set_seed(7);
  EXPECT_THAT(PairRuns(runs), ElementsAre(Pair(2, 3)));
}

TEST(LateMeanTest, IsOfTheLastTenth) {
  std::vector<double> ys(90, 100.0);
  for (int i = 0; i < 10; ++i) ys.push_back(2);
  EXPECT_DOUBLE_EQ(LateMean(Points(ys)), 2);
  EXPECT_DOUBLE_EQ(LateMean(Points({3})), 3);
  EXPECT_TRUE(std::isnan(LateMean({})));
}

TEST(MedianSpeedTest, IgnoresSlowSteps) {
  std::vector<v1::StepMetrics> steps(5);
  for (int i = 0; i < 5; ++i) steps[i].set_tokens_per_second(i == 0 ? 1 : 1000);
  EXPECT_DOUBLE_EQ(MedianSpeed(steps), 1000);
  EXPECT_TRUE(std::isnan(MedianSpeed({})));
}

}  // namespace
}  // namespace braid
