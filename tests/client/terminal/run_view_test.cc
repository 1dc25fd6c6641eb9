#include "client/terminal/run_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/terminal/terminal_text.h"

namespace braid {
namespace run_view_test {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr double kNow = 1'800'000'000;

v1::Run RunOfRanks(int num_ranks) {
  v1::Run run;
  run.set_id("run-000007");
  run.set_state(v1::RUN_RUNNING);
  run.mutable_spec()->set_name(
      "a-name-that-someone-made-far-longer-than-any-terminal-has-columns-x");
  run.mutable_spec()->set_num_steps(2000);
  run.mutable_latest()->set_step(820);
  run.mutable_latest()->set_loss(3.4);
  run.mutable_latest()->set_tokens_per_second(12345678);
  run.mutable_latest()->set_gflops(851234.1);
  run.mutable_latest()->set_model_flops_utilization(.64);
  v1::LayerRouting* routing = run.mutable_latest()->add_routing();
  for (int e = 0; e < 128; ++e) routing->add_mean_weights(1.0 / 128);
  routing->set_effective_experts(101.5);
  routing->set_layer(31);
  for (int rank = 0; rank < num_ranks; ++rank) {
    v1::Heartbeat* beat = run.add_heartbeats();
    beat->set_rank(rank);
    beat->set_host(absl::StrCat("node", rank, ".a-cluster.example.org"));
    beat->set_step(820);
    beat->set_time(kNow - 0.5);
  }
  return run;
}

std::string View(const v1::Run& run, int width = 80) {
  return absl::StrJoin(RunLines(run, {}, kNow, width), "\n");
}

TEST(RunViewTest, AlwaysFitsEightyColumns) {
  v1::Run run = RunOfRanks(64);
  run.set_error(std::string(300, 'x') + "\nand " + std::string(100, ' ') + "more");
  run.set_scheduler_job("123456");
  run.set_principal("someone-with-a-long-name");
  run.add_incidents()->set_cause(absl::StrJoin(std::vector<int>(100, 12345), " "));
  LossHistory history;
  for (int step = 1; step < 500; ++step) {
    v1::StepMetrics metrics;
    metrics.set_step(step);
    metrics.set_loss(1.0 / step);
    history.Add(metrics);
  }
  for (const int width : {40, 80, 200}) {
    for (const std::string& line : RunLines(run, history, kNow, width)) {
      EXPECT_EQ(line, ClipColumns(line, width));
    }
  }
  EXPECT_LE(RunLines(run, history, kNow, 80).size(), 45u);
}

TEST(RunViewTest, ShowsEachRankWithHostAndHeartbeat) {
  const std::string view = View(RunOfRanks(2));
  EXPECT_THAT(view, HasSubstr("   1  node1.a-cluster.exam      820     0.5 s"));
  EXPECT_THAT(view, Not(HasSubstr("more")));
  EXPECT_THAT(view, Not(HasSubstr("silent")));
}

TEST(RunViewTest, ShowsSlowAndSilentRanksFirst) {
  v1::Run run = RunOfRanks(64);
  run.mutable_heartbeats(40)->set_time(kNow - 70);
  v1::SlowRank* slow = run.add_slow_ranks();
  slow->set_rank(63);
  slow->set_ratio(1.42);
  const std::string view = View(run);
  EXPECT_THAT(view, HasSubstr("and 56 more"));
  EXPECT_THAT(view, HasSubstr("70.0 s          -  silent"));
  EXPECT_THAT(view, HasSubstr("slow: 1.4 x median"));
}

TEST(RunViewTest, ShowsRestartsWithTheirCauses) {
  v1::Run run = RunOfRanks(1);
  run.set_attempts(2);
  v1::RunIncident* incident = run.add_incidents();
  incident->set_attempt(1);
  incident->set_step(410);
  incident->set_resumed_step(400);
  incident->set_restart_after_seconds(1);
  incident->set_cause("rank 1 on node1 made no progress for 30 s");
  const std::string view = View(run, 200);
  EXPECT_THAT(view, HasSubstr("RUNNING, attempt 2"));
  EXPECT_THAT(view, HasSubstr("attempt 1 ended at step 410: rank 1 on node1 made no progress for "
                              "30 s; restarted from step 400"));
}

TEST(RunViewTest, ShowsValidationAndSpikes) {
  v1::Run run = RunOfRanks(1);
  v1::ValidationMetrics* const validation = run.mutable_validation();
  validation->set_loss(2.9);
  validation->set_loss_after_first_segment(2.4313);
  validation->set_best_loss(2.4011);
  validation->set_best_step(1200);
  v1::LossSpike* const spike = run.add_spikes();
  spike->set_step(812);
  spike->set_action(v1::SKIP_BATCH);
  spike->set_loss(9.31);
  const std::string view = View(run, 200);
  EXPECT_THAT(view, HasSubstr("2.4313 at the last validation, best 2.4011 after step 1,200"));
  EXPECT_THAT(view, HasSubstr("step 812: loss spike: loss 9.31"));
  EXPECT_THAT(view, Not(HasSubstr("accuracy")));
  validation->set_accuracy(0.9124);
  EXPECT_THAT(View(run, 200), HasSubstr("after step 1,200; accuracy 91.2 %"));
}

TEST(RunViewTest, ShowsValidationLossesOfDomains) {
  v1::Run run = RunOfRanks(1);
  v1::ValidationMetrics* const validation = run.mutable_validation();
  const auto add = [&](const std::string& dataset, const std::string& domain, double loss) {
    v1::ValidationDomain* const added = validation->add_domains();
    added->set_dataset(dataset);
    added->set_domain(domain);
    added->set_loss(loss);
    added->set_loss_after_first_segment(loss);
  };
  add("", "books", 2.31204);
  // The loss of a single domain equals the loss over all windows, which is shown already.
  EXPECT_THAT(View(run, 200), Not(HasSubstr("books")));
  add("", "wiki", 2.5);
  EXPECT_THAT(View(run, 200), HasSubstr("books 2.3120, wiki 2.5000"));
  for (int i = 0; i < 17; ++i) add("/home/store/pack-1", absl::StrCat("d", i), 3);
  EXPECT_THAT(View(run, 800), HasSubstr("wiki 2.5000, pack-1 d0 3.0000"));
  EXPECT_THAT(View(run, 800), HasSubstr("pack-1 d13 3.0000, and 3 more\n"));
}

TEST(RunViewTest, ShowsWhoLaunchedTheRun) {
  v1::Run run = RunOfRanks(1);
  run.set_principal("alice");
  EXPECT_THAT(View(run), HasSubstr("RUNNING, launched by alice\n"));
  run.set_principal("local");
  EXPECT_THAT(View(run), HasSubstr("RUNNING\n"));
}

TEST(RunViewTest, ShowsTheReasonOfAState) {
  v1::Run run = RunOfRanks(1);
  run.set_state(v1::RUN_QUEUED);
  run.set_reason("Slurm job 12 waits: PENDING (Resources)");
  EXPECT_THAT(View(run), HasSubstr("reason       Slurm job 12 waits: PENDING (Resources)"));
}

// Its settings are damaged.
TEST(RunViewTest, UnknownNumberOfStepsIsNotZero) {
  v1::Run run = RunOfRanks(1);
  run.mutable_spec()->set_num_steps(0);
  run.mutable_latest()->set_step(150);
  EXPECT_THAT(View(run), HasSubstr("progress     step 150\n"));
  EXPECT_THAT(View(run), Not(HasSubstr("of 0")));
}

TEST(RunViewTest, RanksOfAnEndedRunAreNotSilent) {
  v1::Run run = RunOfRanks(1);
  run.set_state(v1::RUN_SUCCEEDED);
  run.mutable_heartbeats(0)->set_time(kNow - 86400);
  EXPECT_THAT(View(run), Not(HasSubstr("silent")));
}

TEST(RunViewTest, WrapsAtBlanksWithoutLoss) {
  v1::Run run;
  run.set_error("first second third fourth fifth sixth\nlast");
  const std::string view = View(run, 13 + 20);
  EXPECT_THAT(view, HasSubstr("error        first second third\n"
                              "             fourth fifth sixth\n"
                              "             last"));
}

TEST(StoppedTextTest, NamesTheNewestCheckpoint) {
  v1::Run run;
  run.set_id("run-000001");
  run.mutable_latest()->set_step(292);
  EXPECT_EQ(StoppedText(run),
            "run-000001 stopped after step 292; resume it with: braid resume run-000001")
      << "an earlier server";
  run.set_checkpoint_step(292);
  EXPECT_EQ(StoppedText(run),
            "run-000001 stopped after step 292; resume it with: braid resume run-000001");
  run.set_checkpoint_step(200);
  EXPECT_EQ(StoppedText(run),
            "run-000001 stopped after step 200 (steps 201 to 292 were not saved); resume it with: "
            "braid resume run-000001");
  run.set_checkpoint_step(291);
  EXPECT_THAT(StoppedText(run), HasSubstr("after step 291 (step 292 was not saved); "));
  run.set_checkpoint_step(0);
  EXPECT_THAT(StoppedText(run),
              HasSubstr("stopped without a checkpoint (steps 1 to 292 were not "));
  run.clear_latest();
  EXPECT_THAT(StoppedText(run), HasSubstr("stopped after step 0; "));
}

TEST(LossHistoryTest, KeepsTheNewestStepsOnce) {
  LossHistory history;
  for (const int step : {1, 2, 2, 1, 3}) {
    v1::StepMetrics metrics;
    metrics.set_step(step);
    metrics.set_loss(10 * step);
    history.Add(metrics);
  }
  EXPECT_EQ(history.Newest(2), (std::vector<double>{20, 30}));
  EXPECT_EQ(history.Newest(9), (std::vector<double>{10, 20, 30}));
}

}  // namespace run_view_test
}  // namespace braid
