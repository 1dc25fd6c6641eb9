#include "reproduce/routers/routers_claims.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "reproduce/reproduction_plan.h"
#include "reproduce/routers/routers_experiment.h"
#include "tests/reproduce/fabricated_evidence.h"

namespace braid {
namespace routers_claims_test {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr ClaimSettings kSettings = {.bootstrap = {.samples = 300}};

// A world in which soft merging is .05 below all others, except that top-2 is .1 below it in random
// order.
double LossOf(const PlannedRun& run) {
  if (run.arm.name == kSoftMerging) return 3.95;
  return run.arm.name == "top-2" && run.order == v1::RANDOM ? 3.85 : 4.0;
}

Evidence World() {
  return FabricateEvidence(RoutersExperiment(),
                           [](const PlannedRun& run, int) { return LossOf(run); });
}

TEST(RoutersClaimsTest, JudgesEachRivalInBothOrders) {
  const std::vector<Claim> claims = EvaluateRouterClaims(World(), kSettings);
  ASSERT_EQ(claims.size(), 8);
  for (const Claim& claim : claims) {
    const RouterRival& rival = RouterRivals()[claim.number - 1];
    const bool loses = rival.name == std::string("top-2");
    EXPECT_EQ(claim.verdict, loses ? Verdict::kNotShown : Verdict::kShown) << claim.sentence;
    ASSERT_EQ(claim.parts.size(), 5);
    EXPECT_NEAR(claim.parts[0].estimate->effect, 0.05, 0.002);
    EXPECT_NEAR(claim.parts[1].estimate->effect, loses ? -0.1 : 0.05, 0.002);
    EXPECT_NEAR(claim.parts[4].estimate->effect, loses ? 0.15 : 0, 0.003);
    EXPECT_EQ(claim.parts[2].estimate.has_value(), rival.causal_training);
    if (loses) {
      EXPECT_THAT(claim.cautions,
                  ElementsAre(HasSubstr("Soft merging loses to top-2 in random order")));
    } else {
      EXPECT_THAT(claim.cautions, IsEmpty());
    }
  }
  EXPECT_EQ(claims[0].series.size(), 8);
}

// Losses fall by .01 a step; a rival whose steps take half as long is compared with soft merging
// after half of its steps.
TEST(RoutersClaimsTest, EqualTimeComparesTheStepsThatBothCouldTake) {
  Evidence evidence = World();
  for (ArmResult& result : evidence.results) {
    for (v1::StepMetrics& step : result.metrics) {
      step.set_step_seconds(result.arm == "hash" ? 0.5 : 1.0);
      step.set_loss_after_first_segment(5 - 0.01 * static_cast<double>(step.step()));
    }
  }
  const std::vector<Claim> claims = EvaluateRouterClaims(evidence, kSettings);
  // Last tenths: steps 19 and 20 of the rival, step 10 of soft merging.
  EXPECT_NEAR(claims[6].parts[2].estimate->effect, -0.095, 1e-9);
  EXPECT_NEAR(claims[2].parts[2].estimate->effect, 0, 1e-9);
}

TEST(RoutersClaimsTest, ClaimsWithoutRunsAreNotMeasured) {
  for (const Claim& claim : EvaluateRouterClaims({}, kSettings)) {
    EXPECT_EQ(claim.verdict, Verdict::kNotMeasured);
  }
}

TEST(RoutersExperimentTest, FullRunsFitIntoFourHoursOnTwoCores) {
  const ReproductionPlan plan = FullPlan(RoutersExperiment());
  EXPECT_EQ(plan.runs.size(), 9 * 2 * 3);
  EXPECT_LT(EstimateTime(plan, 2, 24'000'000).total(), 4 * 3600);
}

}  // namespace routers_claims_test
}  // namespace braid
