#include "runs/batch_schedule.h"

#include "gtest/gtest.h"

namespace braid {
namespace batch_schedule_test {

TEST(BatchScheduleTest, GrowsLinearlyInMultiplesOfTheUnit) {
  const BatchSchedule schedule = {.full = 20, .first = 4, .unit = 4, .growth_steps = 8};
  const int64_t expected[] = {4, 4, 8, 8, 12, 12, 16, 16, 20, 20};
  for (int64_t step = 0; step < 10; ++step) EXPECT_EQ(schedule.At(step), expected[step]) << step;
  EXPECT_EQ(BatchSchedule{.full = 7}.At(0), 7);
  EXPECT_EQ(BatchSchedule{.full = 7}.Before(5), 35);
}

TEST(BatchScheduleTest, SumsAndInversesEqualAWalk) {
  for (const int64_t steps : {1, 2, 7, 100, 999}) {
    for (const auto& [first, full, unit] :
         {std::tuple{1, 1, 1}, {1, 64, 1}, {3, 50, 3}, {2, 1000, 2}, {8, 9, 8}}) {
      const BatchSchedule schedule = {
          .full = full, .first = first, .unit = unit, .growth_steps = steps};
      int64_t sum = 0;
      for (int64_t step = 0; step < steps + 10; ++step) {
        ASSERT_EQ(schedule.Before(step), sum) << step;
        ASSERT_EQ(schedule.StepsToRead(static_cast<double>(sum)), step);
        ASSERT_EQ(schedule.StepsToRead(static_cast<double>(sum) + 0.5), step + 1);
        ASSERT_GE(schedule.At(step + 1), schedule.At(step));
        sum += schedule.At(step);
      }
    }
  }
}

TEST(BatchScheduleTest, LongGrowthDoesNotOverflow) {
  const BatchSchedule schedule = {
      .full = 1 << 20, .first = 1, .unit = 1, .growth_steps = int64_t{1} << 32};
  const double mean = (static_cast<double>(1 << 20) + 1) / 2;
  const auto steps = int64_t{1} << 32;
  EXPECT_NEAR(static_cast<double>(schedule.Before(steps)), mean * static_cast<double>(steps),
              static_cast<double>(steps));
  EXPECT_EQ(schedule.StepsToRead(1e18), (int64_t{1} << 32) + 1);
}

}  // namespace batch_schedule_test
}  // namespace braid
