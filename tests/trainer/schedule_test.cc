#include "trainer/schedule.h"

#include <cmath>

#include "gtest/gtest.h"

namespace braid {
namespace schedule_test {

constexpr Schedule kSchedule{.peak = 2.0, .warmup_steps = 4, .num_steps = 24, .final_ratio = 0.1};

Schedule Of(v1::LearningRateSchedule kind) {
  Schedule schedule = kSchedule;
  schedule.kind = kind;
  schedule.decay_steps = kind == v1::WSD ? 8 : 0;
  return schedule;
}

constexpr v1::LearningRateSchedule kKinds[] = {v1::COSINE, v1::WSD, v1::LINEAR, v1::CONSTANT,
                                               v1::INVERSE_SQUARE_ROOT};

TEST(ScheduleTest, AllWarmUpLinearly) {
  for (const v1::LearningRateSchedule kind : kKinds) {
    EXPECT_DOUBLE_EQ(LearningRate(Of(kind), 0), 0.5) << kind;
    EXPECT_DOUBLE_EQ(LearningRate(Of(kind), 1), 1.0) << kind;
    EXPECT_DOUBLE_EQ(LearningRate(Of(kind), 3), 2.0) << kind;
  }
}

TEST(ScheduleTest, NeverRiseAfterWarmUpNorLeaveTheirRange) {
  for (const v1::LearningRateSchedule kind : kKinds) {
    for (int64_t t = 4; t <= 1000; ++t) {
      EXPECT_LE(LearningRate(Of(kind), t), LearningRate(Of(kind), t - 1)) << kind << " " << t;
      EXPECT_GE(LearningRate(Of(kind), t), 0.2 - 1e-12) << kind << " " << t;
    }
  }
}

TEST(ScheduleTest, FallsAsACosine) {
  EXPECT_DOUBLE_EQ(LearningRate(kSchedule, 4), 2.0);
  EXPECT_NEAR(LearningRate(kSchedule, 14), 2.0 * 0.55, 1e-12);
  EXPECT_NEAR(LearningRate(kSchedule, 24), 0.2, 1e-12);
  for (int64_t t = 5; t <= 24; ++t) {
    EXPECT_LT(LearningRate(kSchedule, t), LearningRate(kSchedule, t - 1));
  }
}

TEST(ScheduleTest, WsdIsStableUntilItsDecay) {
  const Schedule wsd = Of(v1::WSD);
  for (int64_t t = 4; t <= 16; ++t) EXPECT_DOUBLE_EQ(LearningRate(wsd, t), 2.0) << t;
  EXPECT_NEAR(LearningRate(wsd, 18), 2.0 * (1 - 0.9 * 0.5), 1e-12);  // a quarter of the decay
  EXPECT_NEAR(LearningRate(wsd, 24), 0.2, 1e-12);
  for (int64_t t = 17; t <= 24; ++t) EXPECT_LT(LearningRate(wsd, t), LearningRate(wsd, t - 1));
}

TEST(ScheduleTest, LinearIsAStraightLine) {
  const Schedule linear = Of(v1::LINEAR);
  EXPECT_DOUBLE_EQ(LearningRate(linear, 4), 2.0);
  EXPECT_NEAR(LearningRate(linear, 24), 0.2, 1e-12);
  for (int64_t t = 5; t <= 24; ++t) {
    EXPECT_NEAR(LearningRate(linear, t - 1) - LearningRate(linear, t), 1.8 / 20, 1e-12);
  }
}

TEST(ScheduleTest, ConstantStaysAtThePeak) {
  for (int64_t t = 3; t < 100; ++t) EXPECT_DOUBLE_EQ(LearningRate(Of(v1::CONSTANT), t), 2.0);
}

TEST(ScheduleTest, InverseSquareRootHalvesInFourTimesTheSteps) {
  const Schedule schedule = Of(v1::INVERSE_SQUARE_ROOT);
  EXPECT_NEAR(LearningRate(schedule, 15), 1.0, 1e-12);
  EXPECT_NEAR(LearningRate(schedule, 63), 0.5, 1e-12);
  EXPECT_NEAR(LearningRate(schedule, 100000), 0.2, 1e-12);
}

TEST(ScheduleTest, StaysAtTheFinalRate) {
  for (const auto kind : {v1::COSINE, v1::WSD, v1::LINEAR}) {
    EXPECT_NEAR(LearningRate(Of(kind), 1000), 0.2, 1e-12) << kind;
  }
}

TEST(ScheduleTest, TheGatePenaltyGrowsAgainHoweverLongItFell) {
  v1::TokenRouting token;
  token.set_gate(v1::TokenRouting::RELU);
  token.set_active_experts(2);
  token.set_l1_factor(1.2);
  EXPECT_EQ(NextGatePenalty(1e-8, 2, token), 1e-8);
  EXPECT_EQ(NextGatePenalty(1e-8, 1.5, token), 1e-8 / 1.2);
  double penalty = 1e-8;
  for (int step = 0; step < 10000; ++step) penalty = NextGatePenalty(penalty, 1, token);
  for (int step = 0; step < 300; ++step) penalty = NextGatePenalty(penalty, 3, token);
  EXPECT_GT(penalty, 1e-8);
}

// Where gates are not trained, no penalty lowers the number. state.json cannot store infinity.
TEST(ScheduleTest, TheGatePenaltyFallsAgainHoweverLongItGrew) {
  v1::TokenRouting token;
  token.set_gate(v1::TokenRouting::RELU);
  token.set_active_experts(2);
  token.set_l1_factor(1.2);
  double penalty = 1e-8;
  for (int step = 0; step < 10000; ++step) penalty = NextGatePenalty(penalty, 3, token);
  EXPECT_TRUE(std::isfinite(static_cast<float>(penalty))) << penalty;
  for (int step = 0; step < 500; ++step) penalty = NextGatePenalty(penalty, 1, token);
  EXPECT_LT(penalty, 1e-8);
}

TEST(ScheduleTest, NeedsNoWarmUp) {
  for (const v1::LearningRateSchedule kind : kKinds) {
    EXPECT_DOUBLE_EQ(
        LearningRate({.kind = kind, .peak = 1, .num_steps = 10, .final_ratio = 0.5}, 0), 1.0)
        << kind;
  }
}

}  // namespace schedule_test
}  // namespace braid
