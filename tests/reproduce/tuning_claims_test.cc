// The claims of the experiments on fine-tuning in worlds where they hold, and where all arms are
// equal.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reproduce/emoe/emoe_claims.h"
#include "reproduce/emoe/emoe_experiment.h"
#include "reproduce/molex/molex_claims.h"
#include "reproduce/molex/molex_experiment.h"
#include "reproduce/tuned_experiment.h"
#include "tests/reproduce/fabricated_tuning.h"

namespace braid {
namespace tuning_claims_test {

const ClaimSettings kSettings = {.bootstrap = {.samples = 300}};

// A world in which EMoE's claims hold: routing by clustered keys lowers the loss by .06, wherever
// the model is asked, and routing at test alone changes nothing.
double LossWithEmoe(const PlannedRun& run, const std::string&, const std::string&) {
  const std::string& name = run.arm.name;
  if (name == kEmoe || name == "learned-gate" || name == "full-emoe") return 0.5;
  return name == "not-top" || name == "bottom" ? 0.6 : 0.56;
}

double LossWithMolex(const PlannedRun& run, const std::string&, const std::string&) {
  const std::string& name = run.arm.name;
  return name == kMolex || name == "two-layers" ? 0.5 : 0.56;
}

std::vector<int> NumbersOf(const std::vector<Claim>& claims) {
  std::vector<int> numbers;
  for (const Claim& claim : claims) numbers.push_back(claim.number);
  return numbers;
}

void ExpectAllShown(const std::vector<Claim>& claims) {
  for (const Claim& claim : claims) {
    EXPECT_EQ(claim.verdict, Verdict::kShown) << claim.sentence;
    EXPECT_TRUE(claim.cautions.empty()) << claim.cautions.front();
    for (const ClaimPart& part : claim.parts) EXPECT_TRUE(part.estimate) << part.missing;
  }
}

TEST(TuningClaimsTest, ClaimsOfEmoeAreShownWhereTheyHold) {
  const Evidence evidence = FabricateTuning(EmoeExperiment(), LossWithEmoe);
  const std::vector<Claim> claims = EvaluateEmoeClaims(evidence, kSettings);
  EXPECT_EQ(NumbersOf(claims), (std::vector<int>{1, 2, 4, 5, 6, 7, 9, 15}));
  ExpectAllShown(claims);
  EXPECT_NEAR(claims[0].parts[0].estimate->effect, 0.06, 0.002);
  EXPECT_EQ(claims[0].parts[0].unit, "nats per answer");
  EXPECT_GT(claims[0].parts[3].estimate->effect, 0);  // right answers
  EXPECT_NEAR(claims[4].parts[2].estimate->effect, 0.04, 0.002);
}

TEST(TuningClaimsTest, ClaimsOfMolexAreShownWhereTheyHold) {
  const Evidence evidence = FabricateTuning(MolexExperiment(), LossWithMolex);
  const std::vector<Claim> claims = EvaluateMolexClaims(evidence, kSettings);
  EXPECT_EQ(NumbersOf(claims), (std::vector<int>{1, 4, 6, 11}));
  ExpectAllShown(claims);
}

TEST(TuningClaimsTest, EqualArmsShowNoAdvantage) {
  const auto equal = [](const PlannedRun&, const std::string&, const std::string&) { return 0.5; };
  const Evidence emoe = FabricateTuning(EmoeExperiment(), equal);
  for (const Claim& claim : EvaluateEmoeClaims(emoe, kSettings)) {
    const bool holds_for_equal_arms = claim.number == 4 || claim.number == 5;
    EXPECT_EQ(claim.verdict, holds_for_equal_arms ? Verdict::kShown : Verdict::kNotShown)
        << claim.sentence;
  }
  const Evidence molex = FabricateTuning(MolexExperiment(), equal);
  for (const Claim& claim : EvaluateMolexClaims(molex, kSettings)) {
    EXPECT_EQ(claim.verdict, claim.number == 6 ? Verdict::kShown : Verdict::kNotShown)
        << claim.sentence;
  }
}

// The gate of MoLEx must matter: a gain that random layers have as well shows nothing.
TEST(TuningClaimsTest, AGainOfRandomLayersIsNotThatOfTheGate) {
  const auto loss = [](const PlannedRun& run, const std::string&, const std::string&) {
    return run.arm.name == kPlainTuning || run.arm.name == "more-steps" ? 0.56 : 0.5;
  };
  const std::vector<Claim> claims =
      EvaluateMolexClaims(FabricateTuning(MolexExperiment(), loss), kSettings);
  EXPECT_EQ(claims[0].parts[0].verdict, Verdict::kShown);
  EXPECT_EQ(claims[0].verdict, Verdict::kNotShown);
}

TEST(TuningClaimsTest, GuessingIsACaution) {
  const auto guessing = [](const PlannedRun&, const std::string&, const std::string&) {
    return 0.7;
  };
  const Evidence evidence = FabricateTuning(EmoeExperiment(), guessing);
  const std::vector<Claim> claims = EvaluateEmoeClaims(evidence, kSettings);
  ASSERT_EQ(claims[0].cautions.size(), 1);
  EXPECT_THAT(claims[0].cautions[0], testing::HasSubstr("no better than guessing on sst2"));
}

TEST(TuningClaimsTest, WhatHasNoRunsIsNotMeasured) {
  Evidence evidence = FabricateTuning(EmoeExperiment(), LossWithEmoe);
  std::erase_if(evidence.results, [](const ArmResult& result) {
    return result.arm == "random" && result.task == "mawps";
  });
  const std::vector<Claim> claims = EvaluateEmoeClaims(evidence, kSettings);
  EXPECT_TRUE(claims[5].parts[0].estimate);
  EXPECT_FALSE(claims[5].parts[1].estimate);
  EXPECT_THAT(claims[5].parts[1].missing, testing::HasSubstr("random on mawps"));
  for (const Claim& claim : EvaluateEmoeClaims({}, kSettings)) {
    EXPECT_EQ(claim.verdict, Verdict::kNotMeasured);
  }
}

}  // namespace tuning_claims_test
}  // namespace braid
