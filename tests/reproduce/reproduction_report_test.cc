#include "reproduce/reproduction_report.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "reproduce/lory/claims.h"
#include "reproduce/lory/lory_experiment.h"

namespace braid {
namespace reproduction_report_test {

Claim MeasuredClaim() {
  ClaimPart part{.name = "held-out",
                 .unit = "nats per token",
                 .rule = VerdictRule{EffectRule::kPositive, 0.01, 0.02},
                 .estimate = EffectEstimate{.effect = 0.1056,
                                            .low = 0.09,
                                            .high = 0.12,
                                            .has_interval = true,
                                            .by_seed = {0.1, 0.11},
                                            .num_units = 30},
                 .verdict = Verdict::kShown};
  ClaimPart missing{.name = "16 experts", .unit = "nats per token", .missing = "no run"};
  return {.number = 1,
          .name = "MoE below dense",
          .source = "Figure 2",
          .paper_result = "0.118",
          .parts = {part, missing},
          .series = {{.name = "gain",
                      .values = {std::nan("")},
                      .x = {5},
                      .figure = {.name = "Gain", .x_label = "tokens"}},
                     {.name = "code",
                      .labels = {"0"},
                      .values = {0.5},
                      .figure = {.name = "Weights", .shape = SeriesShape::kHeatRow}}},
          .notes = {"Distinct: code."},
          .verdict = Verdict::kShown,
          .sentence = "Shown."};
}

TEST(ReproductionReportTest, JsonHasEffectsIntervalsAndVerdicts) {
  v1::RunSpec spec;
  spec.mutable_model()->set_num_layers(4);
  const Reproduction reproduction{.experiment = &LoryExperiment(),
                                  .plan = "full",
                                  .corpus_paths = {"/text"},
                                  .dataset_dirs = {{"random", "/home/datasets/2"}},
                                  .heldout_windows = {{"law", 40}},
                                  .spec = spec,
                                  .domains = {{"caf\xe9", 12, 0.5}, {"law", 10, 0.4, 20000}},
                                  .runs = {{.name = "moe-similarity-seed-0",
                                            .arm = "moe",
                                            .id = "run-000002",
                                            .training_loss = 4,
                                            .heldout_loss = std::nan(""),
                                            .heldout_bits_per_byte = 1.25}},
                                  .claims = {MeasuredClaim()}};
  const auto json = nlohmann::json::parse(ReproductionJson(reproduction));
  const auto& claim = json["claims"][0];
  EXPECT_EQ(claim["verdict"], "shown");
  EXPECT_EQ(claim["paper"], "0.118");
  EXPECT_EQ(claim["parts"][0]["effect"], 0.1056);
  EXPECT_EQ(claim["parts"][0]["interval"], (nlohmann::json{0.09, 0.12}));
  EXPECT_EQ(claim["parts"][0]["by_seed"].size(), 2);
  EXPECT_EQ(claim["parts"][0]["rule"]["kind"], "positive");
  EXPECT_EQ(claim["parts"][1]["missing"], "no run");
  EXPECT_FALSE(claim["parts"][1].contains("verdict"));
  EXPECT_TRUE(claim["series"][0]["values"][0].is_null());
  EXPECT_EQ(claim["series"][0]["x"][0], 5);
  EXPECT_EQ(claim["series"][0]["figure"], "Gain");
  EXPECT_FALSE(claim["series"][0].contains("labels"));
  EXPECT_EQ(claim["series"][1]["labels"][0], "0");
  EXPECT_EQ(claim["notes"][0], "Distinct: code.");
  EXPECT_EQ(json["runs"][0]["order"], "similarity");
  EXPECT_EQ(json["corpus"][0], "/text");
  EXPECT_EQ(json["datasets"]["random"], "/home/datasets/2");
  EXPECT_EQ(json["spec"]["model"]["num_layers"], 4);
  EXPECT_FALSE(json["domains"][0].contains("num_heldout_windows"));
  EXPECT_EQ(json["domains"][1]["num_heldout_windows"], 40);
  EXPECT_EQ(json["domains"][1]["num_heldout_tokens"], 20000);
  EXPECT_TRUE(json["runs"][0]["heldout_loss"].is_null());
  EXPECT_EQ(json["runs"][0]["heldout_bits_per_byte"], 1.25);
}

TEST(ReproductionReportTest, FineTuningHasPassesOrSteps) {
  Reproduction reproduction{.experiment = &LoryExperiment(), .tuning_steps = 50};
  const auto json = [&] { return nlohmann::json::parse(ReproductionJson(reproduction)); };
  EXPECT_FALSE(json().contains("epochs") || json().contains("tuning_steps")) << "no fine-tuning";
  reproduction.epochs = 2;
  EXPECT_EQ(json()["tuning_steps"], 50);
  EXPECT_FALSE(json().contains("epochs"));
  reproduction.tuning_steps = 0;
  EXPECT_EQ(json()["epochs"], 2);
}

TEST(ReproductionReportTest, EveryClaimWithoutRunsIsValidJson) {
  const Reproduction reproduction{.experiment = &LoryExperiment(),
                                  .claims = EvaluateLoryClaims({}, {})};
  const auto json = nlohmann::json::parse(ReproductionJson(reproduction));
  EXPECT_EQ(json["claims"].size(), 10);
  EXPECT_EQ(json["claims"][9]["verdict"], "not measured");
}

TEST(ReproductionReportTest, ReportsTheLossesOfARun) {
  ArmResult result{.arm = "moe", .seed = 2};
  result.heldout = {{.first_positions = 64, .domains = {{"a", {{9, 1, 30, 10}, {9, 1, 10, 10}}}}}};
  for (int step = 1; step <= 10; ++step) {
    result.metrics.emplace_back().set_step(step);
    result.metrics.back().set_loss_after_first_segment(step);
  }
  const ReproducedRun run =
      ReproducedRunOf(result, "moe-2", "run-000001", {}, {{64, {.tokens = 20, .bytes = 50}}});
  EXPECT_DOUBLE_EQ(run.heldout_loss, 2);
  EXPECT_DOUBLE_EQ(run.heldout_bits_per_byte, 2 / std::log(2) * 20 / 50);
  EXPECT_DOUBLE_EQ(run.training_loss, 10);
  EXPECT_TRUE(std::isnan(ReproducedRunOf({}, "", "", {}).heldout_loss));
  EXPECT_TRUE(std::isnan(ReproducedRunOf(result, "", "", {}).heldout_bits_per_byte));
  EXPECT_EQ(HeldoutWindows(std::vector{ArmResult(), result}),
            (std::map<std::string, int64_t>{{"a", 2}}));
}

// Texts have no figure of their own.
TEST(ReproductionReportTest, WrittenAnswersAreReportedByTheirBleu) {
  const ArmResult result{
      .task = "e2e",
      .tasks = {{.task = "e2e", .answer_losses = {1, 2}, .metrics = {{"bleu", 0.25}, {"nist", 3}}},
                {.task = "sst2", .answer_losses = {1, 2}, .figures = {1, 0}}}};
  const ReproducedRun run = ReproducedRunOf(result, "", "", {});
  EXPECT_EQ(run.tasks[0].figure, 0.25);
  EXPECT_EQ(run.tasks[1].figure, 0.5);
}

}  // namespace reproduction_report_test
}  // namespace braid
