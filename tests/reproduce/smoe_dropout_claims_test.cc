#include "reproduce/smoe_dropout/smoe_dropout_claims.h"

#include <gtest/gtest.h>

#include <cmath>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "reproduce/smoe_dropout/smoe_dropout_experiment.h"
#include "tests/reproduce/fabricated_evidence.h"

namespace braid {
namespace smoe_dropout_claims_test {

const ClaimSettings kSettings = {.bootstrap = {.samples = 300},
                                 .segment_length = kUnscoredPositions};

// A world in which all claims hold: the method is .05 below every other arm, each doubling of k
// lowers its loss by .04, and a fixed k is best at that k.
double LossInFavor(const PlannedRun& run, int active) {
  const std::string& name = run.arm.name;
  const int depth = run.arm.settings.model().num_layers();
  const int experts = run.arm.num_experts();
  if (name == "fixed-k" || absl::StartsWith(name, "learned")) {
    const int own = run.arm.settings.model().routing().token().active_experts();
    return 4.0 + 0.02 * std::abs(std::log2(active) - std::log2(own));
  }
  if (name == "later-layers") return 3.9;
  if (!absl::StartsWith(name, "smoe-dropout")) return 4.0;
  const double advantage =
      0.05 + (depth == 8 ? 0.03 : 0) - (depth == 2 ? 0.03 : 0) - (experts < 16 ? 0.02 : 0);
  return 4.0 - advantage + 0.02 * (std::log2(experts) - std::log2(active));
}

TEST(SmoeDropoutClaimsTest, AClaimIsShownWhereItHolds) {
  const auto gap = [](const PlannedRun& run) {
    return absl::StartsWith(run.arm.name, "smoe-dropout") ? 0.1 : 0.2 + 0.01 * run.seed;
  };
  const Evidence evidence = FabricateEvidence(SmoeDropoutExperiment(), LossInFavor, gap);
  const std::vector<Claim> claims = EvaluateSmoeClaims(evidence, kSettings);
  std::vector<int> numbers;
  for (const Claim& claim : claims) {
    numbers.push_back(claim.number);
    EXPECT_EQ(claim.verdict, Verdict::kShown) << claim.sentence;
    for (const ClaimPart& part : claim.parts) EXPECT_TRUE(part.estimate) << part.missing;
  }
  EXPECT_EQ(numbers, (std::vector<int>{1, 2, 3, 4, 5, 6, 7, 10, 12}));
  EXPECT_NEAR(claims[0].parts.front().estimate->effect, 0.05, 0.002);
  EXPECT_NEAR(claims[2].parts.front().estimate->effect, 0.02, 0.002);
  EXPECT_NEAR(claims[5].parts.front().estimate->effect, 0.06, 0.002);
  EXPECT_NEAR(claims[7].parts.front().estimate->effect, -std::log(0.8), 1e-9);
  EXPECT_NEAR(claims[8].parts.front().estimate->effect, 0.11, 0.03);
}

TEST(SmoeDropoutClaimsTest, EqualArmsShowNoAdvantage) {
  const Evidence evidence =
      FabricateEvidence(SmoeDropoutExperiment(), [](const PlannedRun&, int) { return 4.0; });
  for (const Claim& claim : EvaluateSmoeClaims(evidence, kSettings)) {
    const bool holds_for_equal_arms = claim.number == 2 || claim.number == 10;
    EXPECT_EQ(claim.verdict, holds_for_equal_arms ? Verdict::kShown : Verdict::kNotShown)
        << claim.sentence;
  }
}

}  // namespace smoe_dropout_claims_test
}  // namespace braid
