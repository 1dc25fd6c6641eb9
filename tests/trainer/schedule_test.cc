#include "trainer/schedule.h"

#include "gtest/gtest.h"

namespace braid {
namespace schedule_test {

constexpr Schedule kSchedule{.peak = 2.0, .warmup_steps = 4, .num_steps = 24, .final_ratio = 0.1};

TEST(ScheduleTest, WarmsUpLinearly) {
  EXPECT_DOUBLE_EQ(LearningRate(kSchedule, 0), 0.5);
  EXPECT_DOUBLE_EQ(LearningRate(kSchedule, 1), 1.0);
  EXPECT_DOUBLE_EQ(LearningRate(kSchedule, 3), 2.0);
}

TEST(ScheduleTest, FallsAsACosine) {
  EXPECT_DOUBLE_EQ(LearningRate(kSchedule, 4), 2.0);
  EXPECT_NEAR(LearningRate(kSchedule, 14), 2.0 * 0.55, 1e-12);
  EXPECT_NEAR(LearningRate(kSchedule, 24), 0.2, 1e-12);
  for (int64_t t = 5; t <= 24; ++t) {
    EXPECT_LT(LearningRate(kSchedule, t), LearningRate(kSchedule, t - 1));
  }
}

TEST(ScheduleTest, StaysAtTheFinalRate) { EXPECT_NEAR(LearningRate(kSchedule, 1000), 0.2, 1e-12); }

TEST(ScheduleTest, NeedsNoWarmUp) {
  EXPECT_DOUBLE_EQ(LearningRate({.peak = 1, .num_steps = 10, .final_ratio = 0.5}, 0), 1.0);
}

}  // namespace schedule_test
}  // namespace braid
