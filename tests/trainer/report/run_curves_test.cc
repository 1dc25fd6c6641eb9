#include "trainer/report/run_curves.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <random>

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

TEST(ThinExtremesTest, APieceWithoutFiniteValueIsOneNan) {
  const std::vector<PlotPoint> thin = ThinExtremes(Points(std::vector<double>(9, NAN)), 3);
  ASSERT_EQ(thin.size(), 3u);
  EXPECT_TRUE(std::isnan(thin[1].y));
}

// Every window and every sum anew.
std::optional<double> NaiveShare(const std::vector<PlotPoint>& base,
                                 const std::vector<PlotPoint>& other) {
  const double tokens = base.back().x;
  const auto mean = [&](const std::vector<PlotPoint>& points, double end) {
    double sum = 0, count = 0;
    for (const PlotPoint& p : points) {
      if (p.x > end - tokens / 10 && p.x <= end) sum += p.y, ++count;
    }
    return sum / count;
  };
  for (const PlotPoint& p : other) {
    if (p.x >= tokens / 10 && mean(other, p.x) <= mean(base, tokens)) return p.x / tokens;
  }
  return std::nullopt;
}

TEST(CompareLossTest, AgreesWithTheObviousComputationOnRandomCurves) {
  std::mt19937 random(5);
  std::normal_distribution<double> noise(0, 0.05);
  for (int trial = 0; trial < 50; ++trial) {
    std::vector<PlotPoint> base, other;
    const double gain = 0.3 * noise(random) + 0.01;
    for (int step = 1; step <= 300; ++step) {
      const double loss = 3 + 2 * std::exp(-step / 80.0) + noise(random);
      base.push_back({2048.0 * step, loss});
      other.push_back({2048.0 * step, loss - gain + 0.1 * noise(random)});
    }
    std::vector<double> differences;
    for (int i = 0; i < 300; ++i) {
      if (base[i].x >= 0.9 * base[299].x) differences.push_back(base[i].y - other[i].y);
    }
    double sum = 0, squares = 0;
    for (const double d : differences) sum += d;
    const double n = differences.size(), mean = sum / n;
    for (const double d : differences) squares += (d - mean) * (d - mean);
    const auto comparison = CompareLoss(base, other);
    ASSERT_TRUE(comparison.has_value());
    EXPECT_DOUBLE_EQ(comparison->common_tokens, base.back().x);
    EXPECT_NEAR(comparison->difference, mean, 1e-12);
    EXPECT_NEAR(comparison->standard_error, std::sqrt(squares / (n - 1) / n), 1e-12);
    const std::optional<double> share = NaiveShare(base, other);
    ASSERT_EQ(comparison->share_of_tokens.has_value(), share.has_value());
    EXPECT_NEAR(comparison->share_of_tokens.value_or(0), share.value_or(0), 1e-9);
  }
}

TEST(CompareLossTest, InterpolatesTheBaseWhereStepsHoldOtherNumbersOfTokens) {
  std::vector<PlotPoint> base, other;
  for (int i = 1; i <= 100; ++i) base.push_back({10.0 * i, 5 - 0.01 * i});
  for (int i = 1; i <= 40; ++i) other.push_back({25.0 * i, 4.5 - 0.025 * i});
  const auto comparison = CompareLoss(base, other);
  ASSERT_TRUE(comparison.has_value());
  EXPECT_DOUBLE_EQ(comparison->common_tokens, 1000);
  EXPECT_NEAR(comparison->difference, 0.5, 1e-12);
}

TEST(CompareLossTest, WithoutFinitePointsThereIsNothingToSay) {
  EXPECT_FALSE(CompareLoss({}, Points({1, 2})).has_value());
  EXPECT_FALSE(CompareLoss(Points({1, 2}), Points({NAN, NAN})).has_value());
  EXPECT_FALSE(CompareLoss(Points({1, 2, 2}), Points({3, 3, 3}))->share_of_tokens.has_value());
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
