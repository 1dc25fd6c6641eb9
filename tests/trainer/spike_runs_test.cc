// Loss spikes in whole runs: what is trained on, what is recorded, and that a replay, a resume and
// another number of ranks do the same.
#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/atomic_file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runs/branch.h"
#include "runs/checkpoint.h"
#include "runs/checkpoint_directory.h"
#include "runs/run_spec.h"
#include "runs/step_remark.h"
#include "tests/base/status_matchers.h"
#include "tests/trainer/tiny_run.h"
#include "trainer/rollback.h"
#include "trainer/training_state.h"

namespace braid {
namespace spike_runs_test {

namespace fs = std::filesystem;
using testing::HasSubstr;

std::vector<int64_t> SpikeSteps(const RunDirectory& run) {
  std::vector<int64_t> steps;
  for (const v1::StepMetrics& m : MetricsOf(run)) {
    if (m.has_spike()) steps.push_back(m.step());
  }
  return steps;
}

// Returns the updates of the moments that a checkpoint records.
int64_t UpdatesAt(const RunDirectory& run, int64_t step) {
  const auto state = ReadCheckpointState(CheckpointPath(run.checkpoints(), step));
  EXPECT_TRUE(state.ok()) << state.status();
  return state->num_updates;
}

class SpikeTest : public testing::Test {
 protected:
  static constexpr int64_t kSteps = 100;

  SpikeTest() : dataset_(NewDirectory("data")) {
    WriteTinyDataset(dataset_, {.num_instances = 4000, .random_every = 50});
  }

  // Batches with a random sequence are spikes once the model has learned the rule.
  v1::RunSpec Spec(v1::SpikePolicy policy) {
    v1::RunSpec spec = TinySpec(dataset_, kSteps);
    spec.mutable_optimizer()->set_learning_rate(1e-2);
    spec.mutable_checkpoint()->set_every_steps(10);
    spec.mutable_checkpoint()->set_keep_last(3);
    spec.mutable_spikes()->set_policy(policy);
    spec.mutable_spikes()->set_threshold(3);
    spec.mutable_spikes()->set_window(16);
    return *ResolveRunSpec(spec);
  }

  fs::path dataset_;
};

TEST_F(SpikeTest, ContinueRecordsAndTrainsOn) {
  const RunDirectory recorded = Trained(Spec(v1::CONTINUE));
  const auto spikes = SpikeSteps(recorded);
  ASSERT_FALSE(spikes.empty());
  v1::RunSpec off = Spec(v1::CONTINUE);
  off.mutable_spikes()->set_threshold(0);
  const RunDirectory plain = Trained(off);
  EXPECT_TRUE(SpikeSteps(plain).empty());
  EXPECT_EQ(NewestWeights(recorded), NewestWeights(plain));
}

// The oracle is the run without the detection, up to the first spike, whose weights must be those
// after the step before.
TEST_F(SpikeTest, SkippedBatchesLeaveTheWeightsAlone) {
  const auto spikes = SpikeSteps(Trained(Spec(v1::SKIP_BATCH)));
  ASSERT_FALSE(spikes.empty());
  const int64_t first = spikes.front();
  v1::RunSpec spec = Spec(v1::SKIP_BATCH);
  spec.mutable_checkpoint()->set_every_steps(1);
  spec.mutable_checkpoint()->set_keep_last(1000);
  const RunDirectory run = Trained(spec);
  const auto weights = [&](int64_t step, const char* file) {
    return *ReadFile(CheckpointPath(run.checkpoints(), step) / file);
  };
  // The header of a file names its step.
  const auto tail = [](const std::string& bytes) { return bytes.substr(bytes.size() / 2); };
  for (const char* file : {"model.safetensors", "optimizer.safetensors"}) {
    EXPECT_EQ(tail(weights(first, file)), tail(weights(first - 1, file)));
    EXPECT_NE(tail(weights(first - 1, file)), tail(weights(first - 2, file)));
  }
  EXPECT_EQ(UpdatesAt(run, first - 1), first - 1);
  EXPECT_EQ(UpdatesAt(run, first), first - 1);
  const v1::LossSpike spike = MetricsOf(run)[first - 1].spike();
  EXPECT_EQ(spike.action(), v1::SKIP_BATCH);
  EXPECT_EQ(spike.first_skipped_step(), first);
  EXPECT_EQ(spike.last_skipped_step(), first);
}

TEST_F(SpikeTest, RollbackReturnsToTheNewestRegularCheckpoint) {
  const RunDirectory first_run = Trained(Spec(v1::ROLLBACK));
  std::vector<v1::LossSpike> spikes;
  for (const v1::StepMetrics& m : MetricsOf(first_run)) {
    if (m.has_spike()) spikes.push_back(m.spike());
  }
  ASSERT_FALSE(spikes.empty());
  for (const v1::LossSpike& spike : spikes) {
    const int64_t regular = (spike.step() - 1) / 10 * 10;
    EXPECT_EQ(spike.first_skipped_step(), regular + 1);
    EXPECT_EQ(spike.last_skipped_step(), spike.step());
  }
  // Stopped right after a rollback that upcycles nothing: the weights are those of the checkpoint.
  const v1::LossSpike& spike = *std::ranges::upper_bound(spikes, 30, {}, &v1::LossSpike::step);
  RunDirectory run(NewDirectory("run"));
  ASSERT_EQ(*TrainAlone(run, Spec(v1::ROLLBACK), spike.step()), TrainingOutcome::kInterrupted);
  const int64_t regular = spike.first_skipped_step() - 1;
  const auto tail = [&](int64_t step) {
    const std::string bytes =
        *ReadFile(CheckpointPath(run.checkpoints(), step) / "optimizer.safetensors");
    return bytes.substr(bytes.size() / 2);
  };
  ASSERT_GT(regular, 0);
  EXPECT_EQ(tail(spike.step()), tail(regular));
  EXPECT_EQ(UpdatesAt(run, spike.step()), UpdatesAt(run, regular));
}

// The branch has written checkpoints, but none at a multiple of every_steps, when the spike comes.
TEST_F(SpikeTest, RollbackOfABranchReturnsToItsFirstCheckpoint) {
  v1::RunSpec spec = Spec(v1::ROLLBACK);
  spec.mutable_checkpoint()->set_every_steps(1);
  spec.mutable_checkpoint()->set_keep_last(1000);
  const RunDirectory source = Trained(spec);
  const auto spikes = SpikeSteps(source);
  const int64_t spike = *std::ranges::upper_bound(spikes, 31), first = spike - 6;
  const fs::path begin = CheckpointPath(source.checkpoints(), first);

  spec.set_branch_from(absl::StrCat("run-000001@", first));
  spec.mutable_checkpoint()->set_every_steps(1000);
  spec.mutable_checkpoint()->set_keep_last(1);
  const RunDirectory branch(NewDirectory("run"));
  ASSERT_OK(CopyBranchCheckpoint(begin, branch));
  for (int stop = 0; stop < 2; ++stop) {
    ASSERT_EQ(*TrainAlone(branch, spec, 2), TrainingOutcome::kInterrupted);
  }
  ASSERT_EQ(*TrainAlone(branch, spec, 2), TrainingOutcome::kInterrupted);
  const v1::StepMetrics last = *branch.ReadNewestMetrics();
  ASSERT_EQ(last.step(), spike);
  EXPECT_EQ(last.spike().first_skipped_step(), first + 1);
  const auto tail = [](const fs::path& checkpoint) {
    const std::string bytes = *ReadFile(checkpoint / "optimizer.safetensors");
    return bytes.substr(bytes.size() / 2);
  };
  EXPECT_EQ(tail(CheckpointPath(branch.checkpoints(), spike)), tail(begin));
}

class RollbackStateTest : public SpikeTest {
 protected:
  // Trains 25 steps, with checkpoints at 10, 20 and 25.
  RollbackStateTest() : spec_(Spec(v1::ROLLBACK)), run_(NewDirectory("run")) {
    spec_.mutable_spikes()->set_threshold(0);
    EXPECT_OK(TrainAlone(run_, spec_, 25));
    key_ = ReadCheckpointState(CheckpointPath(run_.checkpoints(), 25))->dataset_key;
  }

  void Remove(int64_t step) { fs::remove_all(CheckpointPath(run_.checkpoints(), step)); }

  absl::StatusOr<int64_t> StepAfterSpike(int64_t spike_step) {
    SingleProcess alone;
    const auto state = RollbackState(spec_, spike_step, run_.checkpoints(), key_, alone, warnings_);
    if (!state.ok()) return state.status();
    return state->step;
  }

  v1::RunSpec spec_;
  RunDirectory run_;
  std::string key_;
  std::ostringstream warnings_;
};

TEST_F(RollbackStateTest, BeginsAgainOnlyBeforeTheFirstRegularCheckpoint) {
  EXPECT_EQ(*StepAfterSpike(26), 20);
  for (const int64_t step : {10, 20, 25}) Remove(step);
  EXPECT_EQ(*StepAfterSpike(10), 0);
  const absl::Status none = StepAfterSpike(11).status();
  EXPECT_TRUE(absl::IsDataLoss(none));
  EXPECT_THAT(std::string(none.message()), HasSubstr("the loss spike at step 11"));
}

TEST_F(RollbackStateTest, FallsBackToAnyCheckpointAndReportsIt) {
  fs::resize_file(CheckpointPath(run_.checkpoints(), 20) / "model.safetensors", 100);
  EXPECT_EQ(*StepAfterSpike(26), 10);
  EXPECT_THAT(warnings_.str(), HasSubstr("is damaged"));
  Remove(10);
  EXPECT_EQ(*StepAfterSpike(26), 25);
  EXPECT_THAT(warnings_.str(), HasSubstr("rolling back to that of step 25"));
}

TEST_F(RollbackStateTest, ABranchNeverBeginsAgain) {
  spec_.set_branch_from("run-000001@12");
  EXPECT_EQ(*StepAfterSpike(5), 20);
  for (const int64_t step : {10, 20, 25}) Remove(step);
  EXPECT_TRUE(absl::IsDataLoss(StepAfterSpike(5).status()));
  EXPECT_TRUE(absl::IsDataLoss(TrainAlone(run_, spec_).status()));
}

TEST_F(SpikeTest, ReplayAndResumeRepeatEveryActionBitForBit) {
  for (const v1::SpikePolicy policy : {v1::SKIP_BATCH, v1::ROLLBACK}) {
    const v1::RunSpec spec = Spec(policy);
    const RunDirectory whole = Trained(spec);
    const auto spikes = SpikeSteps(whole);
    ASSERT_FALSE(spikes.empty());
    for (const int64_t stop_after :
         {spikes.front() - 1, spikes.front(), spikes.back() - 1, spikes.back() + 1, int64_t{33}}) {
      if (stop_after >= 60) continue;
      RunDirectory run(NewDirectory("run"));
      ASSERT_EQ(*TrainAlone(run, spec, stop_after), TrainingOutcome::kInterrupted);
      ASSERT_EQ(*TrainAlone(run, spec), TrainingOutcome::kComplete);
      EXPECT_EQ(LossLines(run), LossLines(whole)) << policy << " " << stop_after;
      EXPECT_EQ(NewestWeights(run), NewestWeights(whole)) << policy << " " << stop_after;
    }
  }
}

// A killed run resumes from its newest checkpoint, before the rollback, and must come to it again.
TEST_F(SpikeTest, ARunKilledAfterARollbackRepeatsIt) {
  const v1::RunSpec spec = Spec(v1::ROLLBACK);
  const RunDirectory whole = Trained(spec);
  const auto spikes = SpikeSteps(whole);
  ASSERT_FALSE(spikes.empty());
  const int64_t spike = spikes.front();
  RunDirectory run(NewDirectory("run"));
  ASSERT_EQ(*TrainAlone(run, spec, spike + 1), TrainingOutcome::kInterrupted);
  fs::remove_all(CheckpointPath(run.checkpoints(), spike + 1));  // as if it was never saved
  ASSERT_EQ(*TrainAlone(run, spec), TrainingOutcome::kComplete);
  EXPECT_EQ(LossLines(run), LossLines(whole));
  EXPECT_EQ(NewestWeights(run), NewestWeights(whole));
}

TEST_F(SpikeTest, EveryRankDecidesAlike) {
  for (const v1::SpikePolicy policy : {v1::SKIP_BATCH, v1::ROLLBACK}) {
    for (const v1::OptimizerSharding sharding : {v1::REPLICATED, v1::ZERO_1}) {
      v1::RunSpec spec = Spec(policy);
      spec.set_world_size(2);
      spec.set_optimizer_sharding(sharding);
      spec.mutable_batch()->clear_micro_batch_size();
      spec.set_weight_check_every_steps(1);
      // Ranks that disagreed would stop each other: the loop compares their weights at every step.
      const RunDirectory run = Trained(*ResolveRunSpec(spec));
      EXPECT_FALSE(SpikeSteps(run).empty());
      EXPECT_EQ(std::ssize(MetricsOf(run)), kSteps);
    }
  }
}

// The learning rate makes the loss overflow; a run that must be finite stops there.
TEST_F(SpikeTest, ValuesThatAreNotFiniteAreSkippedUntilItIsHopeless) {
  v1::RunSpec spec = Spec(v1::SKIP_BATCH);
  spec.mutable_optimizer()->set_learning_rate(1e38);
  spec.mutable_optimizer()->set_warmup_fraction(0.5);
  RunDirectory run(NewDirectory("run"));
  const auto outcome = TrainAlone(run, spec);
  ASSERT_FALSE(outcome.ok());
  EXPECT_THAT(std::string(outcome.status().message()), HasSubstr("th loss spike in a row"));
  EXPECT_GE(run.ReadNewestMetrics()->step(), 9);
}

TEST_F(SpikeTest, RemarkNamesStepFiguresAndAction) {
  v1::StepMetrics metrics;
  EXPECT_EQ(StepRemark(metrics), "");
  v1::LossSpike* const spike = metrics.mutable_spike();
  spike->set_step(812);
  spike->set_loss(9.31);
  spike->set_loss_z(14.25);
  spike->set_action(v1::ROLLBACK);
  spike->set_first_skipped_step(801);
  spike->set_last_skipped_step(812);
  EXPECT_THAT(StepRemark(metrics),
              HasSubstr("step 812: loss spike: loss 9.31 (z 14.2), gradient norm 0 (z 0); rolled "
                        "back to the weights of step 800; batches of steps 801 to 812 skipped"));
}

// Chosen experts compute something else than the dense model: its losses say nothing about theirs.
TEST_F(SpikeTest, ExpertsThatAreChosenBeginTheirOwnHistory) {
  SingleProcess alone;
  for (const auto& [router, kept] :
       {std::pair(v1::CAUSAL_SEGMENT, 2u), std::pair(v1::EXPERT_CHOICE_SEGMENT, 0u)}) {
    v1::RunSpec spec = Spec(v1::SKIP_BATCH);
    spec.mutable_model()->mutable_routing()->set_router(router);
    TrainingState dense = *InitialState(spec, 0);
    dense.spikes.losses = dense.spikes.log_norms = {1, 2};
    const TrainingState experts = *UpcycledState(std::move(dense), spec, alone);
    EXPECT_EQ(experts.spikes.losses.size(), kept);
    EXPECT_EQ(experts.spikes.log_norms.size(), kept);
  }
}

}  // namespace spike_runs_test
}  // namespace braid
