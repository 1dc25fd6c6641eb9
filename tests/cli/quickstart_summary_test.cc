#include "cli/quickstart_summary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/quickstart_plan.h"
#include "client/repeatable_request_id.h"
#include "tests/base/status_matchers.h"

namespace braid {
namespace quickstart_summary_test {

std::vector<v1::StepMetrics> Losses(const std::vector<double>& losses) {
  std::vector<v1::StepMetrics> metrics(losses.size());
  for (size_t i = 0; i < losses.size(); ++i) {
    metrics[i].set_step(i + 1);
    // The loss with the first segment must not matter.
    metrics[i].set_loss(99);
    metrics[i].set_loss_after_first_segment(losses[i]);
    metrics[i].set_tokens_per_second(100 + i);
  }
  return metrics;
}

TEST(QuickstartSummaryTest, GainIsThePairedDifferenceOverTheSecondHalf) {
  const auto dense = Losses({9, 9, 5, 4});
  const auto moe = Losses({1, 1, 4.5, 3});
  EXPECT_DOUBLE_EQ(TrainingGain(dense, moe), (0.5 + 1.0) / 2);
}

TEST(QuickstartSummaryTest, GainPairsStepsByNumber) {
  auto dense = Losses({9, 9, 5, 4});
  dense.erase(dense.begin() + 2);
  EXPECT_DOUBLE_EQ(TrainingGain(dense, Losses({1, 1, 4.5, 3})), 1.0);
  EXPECT_EQ(TrainingGain({}, {}), 0);
}

QuickstartResult Result(double loss, double perplexity) {
  QuickstartResult result;
  result.run.set_id("run-000007");
  result.metrics = Losses({loss, loss});
  v1::DomainEvaluation* const domain = result.evaluation.add_domains();
  domain->set_domain("code");
  domain->set_perplexity_after_first_segment(perplexity);
  domain->set_num_tokens_after_first_segment(100);
  domain->set_perplexity(1e6);
  result.evaluation.add_domains()->set_domain("short");  // no text after the first segment
  result.evaluation.mutable_total()->set_loss_after_first_segment(loss);
  result.evaluation.mutable_total()->set_perplexity_after_first_segment(perplexity);
  return result;
}

TEST(QuickstartSummaryTest, JsonHasTheMainResultsWithoutTheFirstSegment) {
  const QuickstartResults results = {{"dense-similarity", Result(4.0, 54)},
                                     {"moe-similarity", Result(3.5, 33)},
                                     {"dense-random", Result(4.2, 66)},
                                     {"moe-random", Result(4.1, 60)}};
  v1::Job job;
  job.mutable_result()->set_adjacent_cosine(0.25);
  job.mutable_result()->set_random_adjacent_cosine(0.01);
  const std::string text = SummaryJson({.paths = {"/notes"}, .num_steps = 2}, job, results, 12);
  const auto summary = nlohmann::json::parse(text);
  EXPECT_EQ(summary["domains"].size(), 1u) << "domains without a perplexity are left out";
  EXPECT_EQ(summary["domains"]["code"]["dense_perplexity"], 54);
  EXPECT_EQ(summary["domains"]["code"]["moe_perplexity"], 33);
  EXPECT_NEAR(summary["gain_nats"]["similarity"].get<double>(), 0.5, 1e-12);
  EXPECT_NEAR(summary["gain_nats"]["random"].get<double>(), 0.1, 1e-12);
  EXPECT_EQ(summary["adjacent_cosine"]["similarity"], 0.25);
  EXPECT_EQ(summary["tokens_per_second"], 101);
  EXPECT_EQ(RunIdOf(text, "moe-similarity"), "run-000007");
  EXPECT_EQ(summary["corpus"], nlohmann::json({"/notes"}));
  EXPECT_EQ(summary["steps"], 2);

  std::ostringstream table;
  PrintSummary(text, table);
  EXPECT_THAT(table.str(), testing::HasSubstr("code                 54.00        33.00"));
}

// A result is shown again only for what it was asked for.
TEST(QuickstartSummaryTest, OtherSettingsNeedAnotherDirectory) {
  const std::string stored = R"({"corpus": ["/c2.jsonl"], "steps": 3})";
  EXPECT_OK(CheckSameSettings(stored, "/qs4", {.paths = {"/c2.jsonl"}, .num_steps = 3}));
  EXPECT_FAILS(CheckSameSettings(stored, "/qs4", {.paths = {"/c.jsonl"}, .num_steps = 50}),
               absl::StatusCode::kInvalidArgument,
               "--workdir: got /qs4, which holds the quickstart on /c2.jsonl in 3 steps, expected "
               "another directory for /c.jsonl in 50 steps");
  EXPECT_FAILS(CheckSameSettings(stored, "/qs4", {.paths = {"/c2.jsonl"}, .num_steps = 4}),
               absl::StatusCode::kInvalidArgument, "in 3 steps", "in 4 steps");
  EXPECT_FAILS(CheckSameSettings(stored, "/qs4", {.num_steps = 3}),
               absl::StatusCode::kInvalidArgument, "this machine's text in 3 steps");
  EXPECT_OK(CheckSameSettings("{}", "/qs4", {})) << "of an earlier version";
  EXPECT_FAILS(CheckSameSettings("{", "/qs4", {}), absl::StatusCode::kDataLoss,
               "/qs4/summary.json is damaged");
}

TEST(QuickstartPlanTest, PairsDifferOnlyInTheModel) {
  v1::RunSpec dense = QuickstartRunSpec({.moe = false}, "/data", 100);
  v1::RunSpec moe = QuickstartRunSpec({.moe = true}, "/data", 100);
  for (v1::RunSpec* spec : {&dense, &moe}) {
    spec->clear_name();
    spec->mutable_model()->clear_preset();
  }
  EXPECT_EQ(dense.SerializeAsString(), moe.SerializeAsString());
}

TEST(QuickstartPlanTest, RequestIdDependsOnTheSettings) {
  const auto similarity = QuickstartCorpus({"a"}, v1::SIMILARITY);
  EXPECT_EQ(RepeatableRequestId("q", similarity), RepeatableRequestId("q", similarity));
  EXPECT_NE(RepeatableRequestId("q", similarity),
            RepeatableRequestId("q", QuickstartCorpus({"a"}, v1::RANDOM)));
}

}  // namespace quickstart_summary_test
}  // namespace braid
