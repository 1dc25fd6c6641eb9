#include "evaluation/utilization.h"

#include <vector>

#include "braid/v1/analysis.pb.h"
#include "gtest/gtest.h"

namespace braid {
namespace utilization_test {

// Routers are measured at every fifth step after a dense warm-up of 10.
std::vector<v1::StepMetrics> Metrics(int64_t steps) {
  std::vector<v1::StepMetrics> metrics;
  for (int64_t step = 1; step <= steps; ++step) {
    v1::StepMetrics& line = metrics.emplace_back();
    line.set_step(step);
    line.set_num_tokens(100 * step);
    for (const int layer : {1, 3, 4}) {
      if (step <= 10 || step % 5 != 0) break;
      v1::LayerRouting* routing = line.add_routing();
      routing->set_layer(layer);
      routing->set_effective_experts(static_cast<double>(step) + 0.1 * layer);
      routing->set_active_experts(layer);
      routing->set_entropy(1.5);
    }
  }
  return metrics;
}

TEST(UtilizationTest, ReturnsTheChosenLayersUpToAStep) {
  const auto points = UtilizationOf(Metrics(40), std::vector<int>{1, 4}, 30);
  ASSERT_EQ(points.size(), 8u);  // steps 15, 20, 25, 30
  EXPECT_EQ(points[0].step(), 15);
  EXPECT_EQ(points[0].tokens(), 1500);
  EXPECT_EQ(points[1].layer(), 4);
  EXPECT_DOUBLE_EQ(points[1].effective_experts(), 15.4);
  EXPECT_EQ(points[1].active_experts(), 4);
  EXPECT_EQ(points[7].step(), 30);
}

TEST(UtilizationTest, OfManyStepsKeepsTheFirstAndTheLast) {
  const auto points = UtilizationOf(Metrics(1000), std::vector<int>{3}, 1000, 7);
  ASSERT_EQ(points.size(), 7u);
  EXPECT_EQ(points.front().step(), 15);
  EXPECT_EQ(points.back().step(), 1000);
  EXPECT_EQ(UtilizationOf(Metrics(1000), std::vector<int>{3}, 1000, 1)[0].step(), 1000);
}

TEST(UtilizationTest, IsEmptyDuringTheDenseWarmUp) {
  EXPECT_TRUE(UtilizationOf(Metrics(10), std::vector<int>{1}, 10).empty());
}

}  // namespace utilization_test
}  // namespace braid
