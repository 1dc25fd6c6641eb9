#include "reproduce/smoe_dropout/smoe_dropout_claims.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>

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
  EXPECT_EQ(claims[5].parts[1].name,
            "dense-dropout minus SMoE-Dropout, 16 minus 4 experts of 64 units");
  EXPECT_NEAR(claims[5].parts[1].estimate->effect, 0.02, 0.002);
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

TEST(SmoeDropoutClaimsTest, ReportsTheDoublingsOfEveryGateBesideTheMethod) {
  const Claim slims = EvaluateSmoeClaims({}, kSettings)[2];
  std::map<std::string, int> doublings;
  for (const ClaimPart& part : slims.parts) {
    const std::string arm = part.name.substr(0, part.name.find(','));
    EXPECT_EQ(part.rule.has_value(), arm == "smoe-dropout") << part.name;
    ++doublings[arm];
  }
  EXPECT_THAT(doublings,
              testing::ElementsAre(testing::Pair("learned", 4), testing::Pair("learned-growing", 4),
                                   testing::Pair("learned-half", 4),
                                   testing::Pair("smoe-dropout", 4), testing::Pair("thor", 4)));
}

// Returns the arm of this name; one without a name if there is none.
ArmDefinition ArmOf(const std::string& name) {
  for (const ArmDefinition& arm : SmoeDropoutExperiment().arms) {
    if (arm.name == name) return arm;
  }
  return {};
}

// Runs are found again by their settings.
TEST(SmoeDropoutExperimentTest, KeepsTheSettingsOfArmsThatAnEarlierVersionBegan) {
  const std::map<std::string, std::string> settings = {
      {"dense-dropout-depth-2",
       "model { num_layers: 2 routing { router: DENSE } dropout { kind: BERNOULLI rate: 0.1 } }"},
      {"learned-depth-8",
       "model { num_layers: 8 routing { router: TOKEN_CHOICE num_experts: 16"
       " token { gate: LINEAR active_experts: 2 } } }"},
      {"smoe-dropout-depth-8",
       "model { num_layers: 8 routing { router: TOKEN_CHOICE num_experts: 16"
       " token { gate: FROZEN active_experts: 16 } } } growth { first: 8 last: 16 }"},
      {"smoe-dropout-experts-4",
       "model { routing { router: TOKEN_CHOICE num_experts: 4"
       " token { gate: FROZEN active_experts: 4 } } } growth { first: 2 last: 4 }"}};
  for (const auto& [name, text] : settings) {
    v1::RunSpec expected;
    ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &expected)) << text;
    const ArmDefinition arm = ArmOf(name);
    EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equals(arm.settings, expected))
        << name << ": " << arm.SettingsText();
    EXPECT_TRUE(arm.full_only) << name;
  }
}

TEST(SmoeDropoutExperimentTest, EverySizeHasADenseAndALearnedPartner) {
  for (const char* size : {"", "-depth-2", "-depth-8", "-ffn-256", "-ffn-512"}) {
    SCOPED_TRACE(size);
    const ArmDefinition smoe = ArmOf(std::string("smoe-dropout") + size);
    ASSERT_FALSE(smoe.name.empty());
    for (const char* partner : {"dense-dropout", "learned"}) {
      const ArmDefinition arm = ArmOf(partner + std::string(size));
      ASSERT_FALSE(arm.name.empty()) << partner;
      EXPECT_EQ(arm.settings.model().d_ff(), smoe.settings.model().d_ff()) << partner;
      EXPECT_EQ(arm.settings.model().num_layers(), smoe.settings.model().num_layers()) << partner;
      if (arm.name.starts_with("learned")) {
        EXPECT_EQ(arm.num_experts(), smoe.num_experts());
      }
    }
  }
  EXPECT_EQ(ArmOf("smoe-dropout-ffn-256").settings.model().d_ff(), 64 * 4);
  EXPECT_EQ(ArmOf("smoe-dropout-ffn-512").num_experts(), 8);
}

}  // namespace smoe_dropout_claims_test
}  // namespace braid
