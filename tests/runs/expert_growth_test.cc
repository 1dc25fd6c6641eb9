#include "runs/expert_growth.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/base/status_matchers.h"

namespace braid {
namespace expert_growth_test {

using testing::ElementsAre;
using testing::Pair;

// The released code of SMoE-Dropout: round((k1 - k0) * step / steps) + k0 in Python, which rounds
// halves to even numbers.
TEST(ExpertGrowthTest, ActiveExpertsGrowAndRoundHalvesToEven) {
  const ExpertGrowth growth = {.first = 8, .last = 16, .steps = 16};
  const int expected[] = {8, 8, 9, 10, 10, 10, 11, 12, 12, 12, 13, 14, 14, 14, 15, 16, 16, 16};
  for (int step = 0; step < 18; ++step) {
    EXPECT_EQ(ActiveExperts(growth, step), expected[step]) << step;
  }
}

TEST(ExpertGrowthTest, AShortGrowthStaysAtItsLastNumberHoweverLongTheRun) {
  for (const int64_t steps : {0, 1, 3}) {
    const ExpertGrowth growth = {.first = 1, .last = 4096, .steps = steps};
    EXPECT_EQ(ActiveExperts(growth, 0), 1);
    for (const int64_t step : {int64_t{3}, int64_t{1} << 20, int64_t{1} << 32}) {
      EXPECT_EQ(ActiveExperts(growth, step), 4096) << steps << " " << step;
    }
  }
}

TEST(ExpertGrowthTest, CountsTheStepsOfEachNumber) {
  for (const int first : {1, 8, 16}) {
    for (const int64_t growing : {1, 7, 16, 100}) {
      const ExpertGrowth growth = {.first = first, .last = 16, .steps = growing};
      for (const int64_t num_steps : {1, 10, 40, 250}) {
        std::map<int, int64_t> expected;
        for (int64_t step = 0; step < num_steps; ++step) ++expected[ActiveExperts(growth, step)];
        EXPECT_EQ(StepsByActiveExperts(growth, num_steps), expected)
            << first << " " << growing << " " << num_steps;
      }
    }
  }
  EXPECT_THAT(
      StepsByActiveExperts({.first = 1, .last = 2, .steps = int64_t{1} << 32}, int64_t{1} << 32),
      ElementsAre(Pair(1, (int64_t{1} << 31) + 1), Pair(2, (int64_t{1} << 31) - 1)));
}

TEST(ExpertGrowthTest, GrowsOverAShareOfTheSteps) {
  v1::RoutingConfig routing;
  routing.set_router(v1::TOKEN_CHOICE);
  routing.set_num_experts(8);
  v1::GrowthConfig config;
  EXPECT_FALSE(Grows(config));
  config.set_first(2);
  config.set_until(0.25);
  EXPECT_TRUE(Grows(config));
  EXPECT_OK(ResolveGrowth(&routing, &config));
  EXPECT_EQ(routing.token().active_experts(), 8);
  const ExpertGrowth growth = GrowthOf(config, 401);
  EXPECT_EQ(growth.first, 2);
  EXPECT_EQ(growth.last, 8);
  EXPECT_EQ(growth.steps, 101);
}

TEST(ExpertGrowthTest, SettingsWithoutAUsableFirstNumberAreRefused) {
  v1::RoutingConfig routing;
  routing.set_router(v1::TOKEN_CHOICE);
  routing.set_num_experts(8);
  v1::GrowthConfig negative, without, none;
  negative.set_first(-1);
  without.set_until(0.5);
  none.set_first(0);
  EXPECT_FALSE(Grows(none));
  ASSERT_TRUE(Grows(negative));
  EXPECT_FAILS(ResolveGrowth(&routing, &negative), absl::StatusCode::kInvalidArgument,
               "growth.first: got -1, expected 1 to");
  ASSERT_TRUE(Grows(without));
  EXPECT_FAILS(ResolveGrowth(&routing, &without), absl::StatusCode::kInvalidArgument,
               "growth.first: got 0, expected 1 to");
}

TEST(ExpertGrowthTest, OnlyABranchMayEndBeforeTheGrowth) {
  v1::RoutingConfig routing;
  routing.set_router(v1::TOKEN_CHOICE);
  routing.set_num_experts(8);
  v1::GrowthConfig config;
  config.set_first(2);
  config.set_until(1.5);
  EXPECT_FAILS(ResolveGrowth(&routing, &config), absl::StatusCode::kInvalidArgument,
               "growth.until: got 1.5, expected more than 0 and at most 1");
  EXPECT_OK(ResolveGrowth(&routing, &config, /*may_outlast=*/true));
  EXPECT_EQ(GrowthOf(config, 10).steps, 15);
  config.set_until(INFINITY);
  EXPECT_FAILS(ResolveGrowth(&routing, &config, /*may_outlast=*/true),
               absl::StatusCode::kInvalidArgument, "growth.until: got inf");
}

}  // namespace expert_growth_test
}  // namespace braid
