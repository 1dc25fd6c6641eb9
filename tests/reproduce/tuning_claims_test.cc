// The claims of the experiments on fine-tuning in worlds where they hold, and where all arms are
// equal.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <utility>

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
// the model is asked, by more after tuning on several tasks, and routing at test alone changes
// nothing.
double LossWithEmoe(const PlannedRun& run, const std::string&, const std::string&) {
  const std::string& name = run.arm.name;
  if (name == kEmoe || name == kQuarter || name == "learned-gate" || name == "full-emoe" ||
      name == "copies") {
    return 0.5;
  }
  if (run.task == kJointTask) return 0.64;
  return name == "not-top-4" || name == "bottom-4" ? 0.6 : 0.56;
}

// Noise adds .1 to all losses but those of mixing layers.
double LossWithMolex(const PlannedRun& run, const std::string&, const std::string& scoring) {
  const std::string& name = run.arm.name;
  if (name == kMolex || name == "two-layers") return 0.5;
  return scoring.empty() ? 0.56 : 0.66;
}

// Adds what is measured beside losses: activations of the base models; choices that a trained gate
// changes more; costs, texts and choices of the models with mixing layers, which choose a layer by
// the task.
Evidence WithMeasurements(Evidence evidence) {
  for (ArmResult& result : evidence.results) {
    if (result.arm == kTrainedBase) result.expert_mass.assign(6, {.chosen = 0.4, .random = 0.3});
    if (result.arm == kInitialBase) result.expert_mass.assign(6, {.chosen = 0.35, .random = 0.3});
    if (result.arm == kEmoe) result.changed_choices = 0.125;
    if (result.arm == kLearnedGate) result.changed_choices = 0.375;
    v1::StepMetrics& step = result.metrics.emplace_back();
    step.set_step_seconds(result.arm == kMolex ? 1.1 : 1);
    step.set_gflops(result.arm == kMolex ? 2 : 1);
    step.set_peak_resident_mb(result.arm == kMolex ? 600 : 500);
    for (TaskScore& score : result.tasks) {
      for (const char* metric : {"bleu", "nist", "meteor", "rouge_l", "cider"}) {
        score.metrics[metric] = result.arm == kMolex ? 0.6 : 0.5;
      }
    }
    std::vector<double> choices = {0.2, 0.2, 0.2, 0.2, 0.2, 0};
    std::swap(choices[result.task == "sst2" ? 0 : 1], choices[5]);
    if (result.arm == kMolex) result.layer_choices.assign(6, choices);
  }
  return evidence;
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
  const Evidence evidence = WithMeasurements(FabricateTuning(EmoeExperiment(), LossWithEmoe));
  const std::vector<Claim> claims = EvaluateEmoeClaims(evidence, kSettings);
  EXPECT_EQ(NumbersOf(claims), (std::vector<int>{1, 2, 3, 4, 5, 6, 7, 9, 11, 12, 14, 15}));
  ExpectAllShown(claims);
  EXPECT_NEAR(claims[0].parts[0].estimate->effect, 0.06, 0.002);
  EXPECT_EQ(claims[0].parts[0].unit, "nats per answer");
  EXPECT_GT(claims[0].parts[3].estimate->effect, 0);  // right answers
  EXPECT_EQ(claims[1].parts.size(), 3u);
  EXPECT_NEAR(claims[3].parts[1].estimate->effect, 0.25, 1e-9);  // changed choices
  EXPECT_NEAR(claims[5].parts[2].estimate->effect, 0.04, 0.002);
  EXPECT_NEAR(claims[9].parts[0].estimate->effect, 0.08, 0.002);   // tasks together
  EXPECT_NEAR(claims[10].parts[0].estimate->effect, 0.05, 0.002);  // activations
}

TEST(TuningClaimsTest, ClaimsOfMolexAreShownWhereTheyHold) {
  const Evidence evidence = WithMeasurements(FabricateTuning(MolexExperiment(), LossWithMolex));
  const std::vector<Claim> claims = EvaluateMolexClaims(evidence, kSettings);
  EXPECT_EQ(NumbersOf(claims), (std::vector<int>{1, 3, 4, 5, 6, 7, 8, 11}));
  ExpectAllShown(claims);
  EXPECT_NEAR(claims[1].parts[1].estimate->effect, 0.1, 1e-9);   // BLEU
  EXPECT_NEAR(claims[3].parts[2].estimate->effect, 0.1, 0.002);  // noise 0.4
  EXPECT_EQ(claims[2].parts.size(), 3u);
  EXPECT_NEAR(claims[5].parts[0].estimate->effect, std::log(1.2 / 1.1), 1e-9);  // time
  EXPECT_NEAR(claims[5].parts[1].estimate->effect, -std::log(2.2), 1e-9);       // work
  EXPECT_NEAR(claims[5].parts[2].estimate->effect, -std::log(1.2), 1e-9);       // memory
  EXPECT_NEAR(claims[6].parts[0].estimate->effect, 0.2 * std::log(2), 1e-9);    // choices
}

TEST(TuningClaimsTest, EqualArmsShowNoAdvantage) {
  const auto equal = [](const PlannedRun&, const std::string&, const std::string&) { return 0.5; };
  const Evidence emoe = FabricateTuning(EmoeExperiment(), equal);
  const std::vector<Claim> of_emoe = EvaluateEmoeClaims(emoe, kSettings);
  EXPECT_EQ(of_emoe.size(), 12u);
  for (const Claim& claim : of_emoe) {
    if (claim.number == 14) continue;  // not of losses
    if (claim.number == 4) {
      EXPECT_EQ(claim.parts[0].verdict, Verdict::kShown) << claim.sentence;
      continue;
    }
    const bool holds_for_equal_arms = claim.number == 3 || claim.number == 5;
    EXPECT_EQ(claim.verdict, holds_for_equal_arms ? Verdict::kShown : Verdict::kNotShown)
        << claim.sentence;
  }
  const Evidence molex = FabricateTuning(MolexExperiment(), equal);
  const std::vector<Claim> of_molex = EvaluateMolexClaims(molex, kSettings);
  EXPECT_EQ(of_molex.size(), 8u);
  for (const Claim& claim : of_molex) {
    if (claim.number == 7 || claim.number == 8) continue;  // not of losses
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

// Choices that differ between seeds as much as between tasks do not depend on the task.
TEST(TuningClaimsTest, ChoicesThatDifferBetweenSeedsDoNotFitTasks) {
  Evidence evidence = WithMeasurements(FabricateTuning(MolexExperiment(), LossWithMolex));
  for (ArmResult& result : evidence.results) {
    if (result.layer_choices.empty()) continue;
    std::vector<double> choices(6, 0.0);
    choices[result.seed + (result.task == "sst2" ? 3 : 0)] = 1;
    result.layer_choices.assign(6, choices);
  }
  const Claim claim = EvaluateMolexClaims(evidence, kSettings)[6];
  EXPECT_EQ(claim.number, 8);
  EXPECT_NEAR(claim.parts[0].estimate->effect, 0, 1e-9);
  EXPECT_EQ(claim.verdict, Verdict::kNotShown);
}

// Each seed is part of several pairs, so one odd seed is one deviation, not several.
TEST(TuningClaimsTest, PairsOfSeedsAreNotCountedAsIndependent) {
  Evidence evidence = WithMeasurements(FabricateTuning(MolexExperiment(), LossWithMolex));
  for (ArmResult& result : evidence.results) {
    if (result.layer_choices.empty()) continue;
    std::vector<double> choices(6, 0.0);
    choices[(result.seed == 2 ? 1 : 0) + (result.task == "sst2" ? 3 : 0)] = 1;
    result.layer_choices.assign(6, choices);
  }
  const Claim claim = EvaluateMolexClaims(evidence, kSettings)[6];
  ASSERT_TRUE(claim.parts[0].estimate);
  EXPECT_NEAR(claim.parts[0].estimate->effect, std::log(2.0) / 3, 1e-9);
  // The values of the seeds are 1, 1 and -1 times log 2, and Student's factor for three is 4.303.
  const double half = 4.303 * std::log(2.0) * std::sqrt(4.0 / 3) / std::sqrt(3.0);
  EXPECT_NEAR(claim.parts[0].estimate->low, std::log(2.0) / 3 - half, 1e-3);
}

// Claim E4 has two conditions: the loss with key means is not higher, and fewer choices change.
TEST(TuningClaimsTest, AGateThatChangesItsChoicesNoMoreIsNotWorse) {
  Evidence evidence = WithMeasurements(FabricateTuning(EmoeExperiment(), LossWithEmoe));
  for (ArmResult& result : evidence.results) {
    if (result.arm == kLearnedGate) result.changed_choices = 0.125;
  }
  const Claim claim = EvaluateEmoeClaims(evidence, kSettings)[3];
  EXPECT_EQ(claim.number, 4);
  EXPECT_EQ(claim.parts[0].verdict, Verdict::kShown);
  EXPECT_EQ(claim.verdict, Verdict::kNotShown);
}

// Tasks beside the own ones are reported with their right answers where arms were tuned on them.
TEST(TuningClaimsTest, SingleTasksAreReportedWhereTheyHaveRuns) {
  const auto reported = [](const Claim& claim) {
    std::vector<std::string> names;
    for (const ClaimPart& part : claim.parts) {
      if (part.name.starts_with("right answers of emoe")) names.push_back(part.name);
    }
    return names;
  };
  Evidence evidence = FabricateTuning(EmoeExperiment(), LossWithEmoe);
  EXPECT_THAT(reported(EvaluateEmoeClaims(evidence, kSettings)[0]),
              testing::ElementsAre("right answers of emoe minus plain, sst2",
                                   "right answers of emoe minus plain, mawps",
                                   "right answers of emoe minus plain, agnews",
                                   "right answers of emoe minus plain, yelp"));
  std::erase_if(evidence.results, [](const ArmResult& result) { return result.task == "agnews"; });
  EXPECT_EQ(reported(EvaluateEmoeClaims(evidence, kSettings)[0]).size(), 3u);
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
  EXPECT_TRUE(claims[6].parts[0].estimate);
  EXPECT_FALSE(claims[6].parts[1].estimate);
  EXPECT_THAT(claims[6].parts[1].missing, testing::HasSubstr("random on mawps"));
  for (const Claim& claim : EvaluateEmoeClaims({}, kSettings)) {
    EXPECT_EQ(claim.verdict, Verdict::kNotMeasured);
  }
}

}  // namespace tuning_claims_test
}  // namespace braid
