#include "reproduce/order/order_claims.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string_view>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "reproduce/order/order_experiment.h"
#include "reproduce/reproduction_plan.h"
#include "tests/reproduce/fabricated_evidence.h"

namespace braid {
namespace order_claims_test {

constexpr ClaimSettings kSettings = {.bootstrap = {.samples = 300}};

const ClaimPart& PartOf(const Claim& claim, std::string_view name) {
  for (const ClaimPart& part : claim.parts) {
    if (part.name == name) return part;
  }
  ADD_FAILURE() << "no effect " << name;
  return claim.parts.front();
}

// The loss in a world in which similarity order costs `cost` with batches of 4 and nothing with
// larger ones, and in which a MoE gains .05, and .03 more in similarity order.
double LossOf(const PlannedRun& run, double cost) {
  const bool similar = run.order == v1::SIMILARITY;
  const bool moe = absl::StartsWith(run.arm.name, "moe");
  double loss = moe ? 3.95 : 4.0;
  if (similar && moe) loss -= 0.03;
  if (similar && run.arm.settings.batch().global_batch_size() == kSmallBatch) loss += cost;
  return loss;
}

TEST(OrderClaimsTest, FindsSmallBatchesAsTheCause) {
  const Evidence evidence = FabricateEvidence(
      OrderExperiment(), [](const PlannedRun& run, int) { return LossOf(run, 0.1); });
  const std::vector<Claim> claims = EvaluateOrderClaims(evidence, kSettings);
  ASSERT_EQ(claims.size(), 12);
  const ClaimPart& dense = PartOf(claims[0], "help at 16 minus 4 sequences, dense");
  EXPECT_NEAR(dense.estimate->effect, 0.1, 0.002);
  EXPECT_EQ(claims[0].verdict, Verdict::kShown) << claims[0].sentence;
  EXPECT_NEAR(PartOf(claims[0], "help, moe, 4 sequences, OPEN").estimate->effect, -0.07, 0.002);
  for (const char* mixture :
       {"mixed", "random-first-10", "random-first", "random-first-90", "two-runs"}) {
    // The fabricated loss of a mixture is that of similarity order.
    const std::string name = absl::StrCat("random minus ", mixture, ", dense");
    EXPECT_NEAR(PartOf(claims[0], name).estimate->effect, -0.1, 0.002) << mixture;
  }
  EXPECT_EQ(claims[1].verdict, Verdict::kNotShown) << claims[1].sentence;
  EXPECT_EQ(claims[2].verdict, Verdict::kShown) << claims[2].sentence;
  EXPECT_NEAR(claims[2].parts.front().estimate->effect, 0.03, 0.002);
  EXPECT_EQ(claims[3].verdict, Verdict::kShown) << claims[3].sentence;
  EXPECT_NEAR(claims[3].parts[1].estimate->effect, 0.08, 0.002);
  EXPECT_EQ(claims[5].verdict, Verdict::kShown) << claims[5].sentence;
  EXPECT_NEAR(PartOf(claims[5], "help, moe, 4 sequences").estimate->effect, -0.07, 0.002);
  EXPECT_EQ(claims[6].verdict, Verdict::kShown) << claims[6].sentence;
  EXPECT_NEAR(claims[6].parts[1].estimate->effect, 0.08, 0.002);
  EXPECT_EQ(claims[7].verdict, Verdict::kShown) << claims[7].sentence;
  EXPECT_EQ(claims[8].verdict, Verdict::kShown) << claims[8].sentence;
  EXPECT_NEAR(claims[8].parts[0].estimate->effect, 0.1, 0.002);
  EXPECT_EQ(claims[10].number, 13);
  EXPECT_EQ(claims[10].verdict, Verdict::kShown) << claims[10].sentence;
  EXPECT_NEAR(PartOf(claims[10], "help, moe, 4 sequences").estimate->effect, -0.07, 0.002);
  EXPECT_NEAR(PartOf(claims[10], "help, moe, 256 sequences").estimate->effect, 0.03, 0.002);
  ASSERT_EQ(claims[10].series.size(), 4);
  const double help[] = {-0.1, -0.07, 0, 0.03};
  for (size_t i = 0; i < 4; ++i) {
    const ClaimSeries& series = claims[10].series[i];
    ASSERT_EQ(series.values.size(), 10) << series.name;
    EXPECT_DOUBLE_EQ(series.x.front(), 10);
    EXPECT_DOUBLE_EQ(series.x.back(), 100);
    for (const double value : series.values) EXPECT_NEAR(value, help[i], 1e-9) << series.name;
  }
  EXPECT_EQ(claims[10].series[3].name, "moe, 64 sequences");
  EXPECT_TRUE(claims[5].series.empty()) << "long runs do not validate";
  EXPECT_EQ(claims[11].number, 14);
  EXPECT_EQ(claims[11].verdict, Verdict::kShown) << claims[11].sentence;
  EXPECT_NEAR(claims[11].parts[1].estimate->effect, 0.08, 0.002);
  for (const Claim& claim : claims) {
    for (const ClaimPart& part : claim.parts) EXPECT_TRUE(part.estimate) << part.missing;
  }
}

TEST(OrderClaimsTest, CurriculaTurnToSimilarityOrderAtTheirShareOfTheRun) {
  std::map<std::string, double> turns;
  for (const ArmDefinition& arm : OrderExperiment().arms) {
    if (!absl::StartsWith(arm.name, "moe-random-first")) continue;
    ASSERT_EQ(arm.settings.share_phases_size(), 1) << arm.name;
    turns[arm.name] = arm.settings.share_phases(0).after().fraction();
  }
  EXPECT_EQ(turns, (std::map<std::string, double>{{"moe-random-first-10", 0.1},
                                                  {"moe-random-first", 0.5},
                                                  {"moe-random-first-90", 0.9}}));
}

TEST(OrderClaimsTest, ShowsNothingWhereOrderHarmsInEveryBatch) {
  const Evidence evidence = FabricateEvidence(OrderExperiment(), [](const PlannedRun& run, int) {
    return run.order == v1::SIMILARITY ? 4.1 : 4.0;
  });
  const std::vector<Claim> claims = EvaluateOrderClaims(evidence, kSettings);
  EXPECT_EQ(claims[0].verdict, Verdict::kNotShown);
  EXPECT_EQ(PartOf(claims[0], "random better than similarity, dense without neighbors").verdict,
            Verdict::kShown);
  EXPECT_EQ(claims[3].verdict, Verdict::kNotShown);
  EXPECT_EQ(claims[5].verdict, Verdict::kNotShown);
  for (size_t i = 6; i < claims.size(); ++i) EXPECT_EQ(claims[i].verdict, Verdict::kNotShown);
}

// The gradients of sequences have covariance of trace 4 (6 in similarity order), their mean has
// squared norm .1.
TEST(OrderClaimsTest, ReportsTheGradientNoiseScale) {
  Evidence evidence =
      FabricateEvidence(OrderExperiment(), [](const PlannedRun&, int) { return 4.0; });
  for (ArmResult& result : evidence.results) {
    const double trace = result.order == v1::SIMILARITY ? 6 : 4;
    const int batch = absl::StrContains(result.arm, "-16-") ? kLargeBatch : kSmallBatch;
    for (v1::StepMetrics& metrics : result.metrics) {
      metrics.set_gradient_norm(std::sqrt(0.1 + trace / batch));
    }
  }
  const Claim claim = EvaluateOrderClaims(evidence, kSettings)[0];
  EXPECT_THAT(claim.notes, testing::IsSupersetOf(
                               {"Gradient noise scale of dense in random order: 40 sequences.",
                                "Gradient noise scale of moe in similarity order: 60 sequences."}));
  const ClaimPart& ratio =
      PartOf(claim, "squared gradient norm, similarity over random order, moe, 4 sequences");
  EXPECT_NEAR(ratio.estimate->effect, std::log(1.6 / 1.1), 1e-9);
  // A seed that only one of the batches has, as after a failed run, has no part in the scale.
  std::erase_if(evidence.results, [](const ArmResult& result) {
    return result.seed == 1 && absl::StrContains(result.arm, "-16-");
  });
  for (ArmResult& result : evidence.results) {
    if (result.seed != 1) continue;
    for (v1::StepMetrics& metrics : result.metrics) metrics.set_gradient_norm(9);
  }
  EXPECT_THAT(EvaluateOrderClaims(evidence, kSettings)[0].notes,
              testing::Contains("Gradient noise scale of dense in random order: 40 sequences."));
}

TEST(OrderClaimsTest, JudgesRelatedWindowsByTheirOwnScores) {
  Evidence evidence =
      FabricateEvidence(OrderExperiment(), [](const PlannedRun&, int) { return 4.0; });
  for (ArmResult& result : evidence.results) {
    if (result.order != v1::SIMILARITY) continue;
    for (HeldoutScore& score : result.heldout) {
      if (score.dataset != kRelatedData) continue;
      for (DomainWindows& domain : score.domains) {
        for (WindowLoss& window : domain.windows) {
          window.later_loss -= 0.2 * static_cast<double>(window.later_tokens);
        }
      }
    }
  }
  const std::vector<Claim> claims = EvaluateOrderClaims(evidence, kSettings);
  const Claim& related = claims[9];
  EXPECT_EQ(related.number, 10);
  EXPECT_EQ(related.verdict, Verdict::kShown) << related.sentence;
  for (const ClaimPart& part : related.parts) {
    EXPECT_NEAR(part.estimate->effect, 0.2, 0.002) << part.name;
  }
  EXPECT_NEAR(PartOf(claims[0], "help, moe, 4 sequences, OPEN").estimate->effect, 0, 0.002);
}

// An effect on one domain has the same weight whatever the size of the domain.
TEST(OrderClaimsTest, DomainsCountAlike) {
  Evidence evidence =
      FabricateEvidence(OrderExperiment(), [](const PlannedRun&, int) { return 4.0; });
  for (ArmResult& result : evidence.results) {
    if (result.order != v1::RANDOM || result.arm != "dense-4-open") continue;
    for (WindowLoss& window : result.heldout.front().domains.front().windows) {
      window.later_loss += 0.3 * static_cast<double>(window.later_tokens);
    }
  }
  const std::vector<Claim> claims = EvaluateOrderClaims(evidence, kSettings);
  EXPECT_NEAR(PartOf(claims[0], "help, dense, 4 sequences, OPEN").estimate->effect, 0.1, 0.002);
}

TEST(OrderClaimsTest, ClaimsWithoutRunsAreNotMeasured) {
  for (const Claim& claim : EvaluateOrderClaims({}, kSettings)) {
    EXPECT_EQ(claim.verdict, Verdict::kNotMeasured);
  }
}

}  // namespace order_claims_test
}  // namespace braid
