#include "runs/pace.h"

#include <gtest/gtest.h>

namespace braid {
namespace pace_test {

v1::StepMetrics StepOf(int64_t step, double seconds) {
  v1::StepMetrics metrics;
  metrics.set_step(step);
  metrics.set_step_seconds(seconds);
  return metrics;
}

TEST(PaceTest, IsTheMeanOfTheNewestSteps) {
  Pace pace;
  for (int step = 1; step <= 30; ++step) pace.Add(StepOf(step, step <= 10 ? 100 : 2));
  EXPECT_DOUBLE_EQ(pace.SecondsLeft(100), 140);
  pace.Add(StepOf(31, 22));
  EXPECT_DOUBLE_EQ(pace.SecondsLeft(100), 69 * 3);
}

TEST(PaceTest, NothingIsLeftAfterTheLastStep) {
  Pace pace;
  pace.Add(StepOf(30, 2));
  EXPECT_DOUBLE_EQ(pace.SecondsLeft(30), 0);
  EXPECT_DOUBLE_EQ(pace.SecondsLeft(10), 0);
}

TEST(PaceTest, IsUnknownWithoutDurations) {
  Pace pace;
  EXPECT_DOUBLE_EQ(pace.SecondsLeft(100), 0);
  pace.Add(StepOf(3, 0));
  EXPECT_DOUBLE_EQ(pace.SecondsLeft(100), 0);
}

}  // namespace pace_test
}  // namespace braid
