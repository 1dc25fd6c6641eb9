#include "runs/branch.h"

#include <functional>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runs/checkpoint.h"
#include "runs/checkpoint_directory.h"
#include "runs/expert_growth.h"
#include "runs/run_spec.h"
#include "runs/schedule_spec.h"
#include "tests/base/status_matchers.h"
#include "tests/trainer/tiny_run.h"

namespace braid {
namespace branch_test {

namespace fs = std::filesystem;
using testing::HasSubstr;

class BranchTest : public testing::Test {
 protected:
  BranchTest() : dataset_(NewDirectory("data")) {
    WriteTinyDataset(dataset_);
    stable_ = TinySpec(dataset_, 24);
    stable_.mutable_optimizer()->set_schedule(v1::WSD);
    stable_.mutable_optimizer()->set_warmup_fraction(0.125);
    stable_.mutable_optimizer()->mutable_decay()->set_steps(4);
    stable_.mutable_checkpoint()->set_every_steps(4);
    stable_.mutable_checkpoint()->set_keep_every_steps(4);
    stable_ = *ResolveRunSpec(stable_);
  }

  static v1::RunSpec Decay(const std::function<void(v1::TrainingLength*)>& set) {
    v1::RunSpec asked;
    set(asked.mutable_optimizer()->mutable_decay());
    return asked;
  }

  std::string ErrorOf(int64_t step, const v1::RunSpec& asked) const {
    return std::string(BranchSpec(stable_, step, asked).status().message());
  }

  fs::path dataset_;
  v1::RunSpec stable_;
};

TEST_F(BranchTest, CheckpointsToBranchFromNeedNotBeRegularOnes) {
  stable_.mutable_checkpoint()->set_every_steps(20);
  stable_.mutable_checkpoint()->set_keep_every_steps(7);
  const RunDirectory run = Trained(stable_);
  ASSERT_OK_AND_ASSIGN(const std::vector<std::string> names, ListCheckpoints(run.checkpoints()));
  std::vector<int64_t> steps;
  for (const std::string& name : names) steps.push_back(StepOfCheckpoint(name));
  EXPECT_THAT(steps, testing::UnorderedElementsAre(7, 14, 21, 24));
}

TEST_F(BranchTest, ParsesRunAndStep) {
  const auto point = ParseBranchPoint("run-000001@12000");
  ASSERT_TRUE(point.ok());
  EXPECT_EQ(point->run, "run-000001");
  EXPECT_EQ(point->step, 12000);
  EXPECT_EQ(ParseBranchPoint("/a@b/run@7")->run, "/a@b/run");
  for (const char* bad : {"", "run-000001", "@5", "run-000001@", "run-000001@0", "run@1.5"}) {
    EXPECT_THAT(std::string(ParseBranchPoint(bad).status().message()),
                HasSubstr("expected RUN@STEP"))
        << bad;
  }
}

TEST_F(BranchTest, LengthFollowsFromTheDecay) {
  const auto steps = [&](const v1::RunSpec& asked) {
    return BranchSpec(stable_, 18, asked)->num_steps();
  };
  EXPECT_EQ(steps({}), 20);
  EXPECT_EQ(steps(Decay([](auto* d) { d->set_fraction(0.25); })), 24);
  EXPECT_EQ(steps(Decay([](auto* d) { d->set_steps(7); })), 25);
  EXPECT_EQ(steps(Decay([](auto* d) { d->set_epochs(1); })), 28);
}

TEST_F(BranchTest, AnEpochOfAMixtureIsOnePassOverAllDatasets) {
  const fs::path second = NewDirectory("data");
  WriteTinyDataset(second, {.num_instances = 60, .seed = 2});
  v1::RunSpec mixture = stable_;
  for (const fs::path& path : {dataset_, second}) {
    v1::MixtureDataset* const entry = mixture.add_datasets();
    entry->set_dataset(path.string());
    entry->set_share(0.5);
  }
  mixture = *ResolveRunSpec(mixture);
  const v1::RunSpec asked = Decay([](auto* d) { d->set_epochs(1); });
  // 40 and 60 instances in batches of 4.
  EXPECT_EQ(BranchSpec(mixture, 18, asked)->num_steps(), 18 + 25);
  // The oracle is a run of one epoch on the mixture.
  v1::RunSpec whole = mixture;
  whole.clear_num_steps();
  whole.mutable_length()->set_epochs(1);
  EXPECT_EQ(ResolveRunSpec(whole)->num_steps(), 25);
}

TEST_F(BranchTest, KeepsTheStepsOfBothWarmUps) {
  for (const int64_t decay : {1, 3, 100, 12345}) {
    const auto branch = BranchSpec(stable_, 18, Decay([&](auto* d) { d->set_steps(decay); }));
    ASSERT_TRUE(branch.ok()) << branch.status();
    const auto resolved = ResolveRunSpec(*branch);
    ASSERT_TRUE(resolved.ok()) << resolved.status();
    EXPECT_EQ(WarmupSteps(*resolved), 3);
    EXPECT_EQ(DenseSteps(*resolved), 6);
    EXPECT_EQ(DecaySteps(*resolved), decay);
    EXPECT_EQ(resolved->num_steps(), 18 + decay);
  }
  EXPECT_FAILS(BranchSpec(stable_, 18, Decay([](auto* d) { d->set_fraction(0); })),
               absl::StatusCode::kInvalidArgument,
               "optimizer.decay: got 0 steps, expected at least 1: a branch consists of its decay");
}

TEST_F(BranchTest, LengthsInOtherUnitsReplaceThoseOfTheSource) {
  stable_.mutable_batch()->set_first_batch_size(2);
  stable_.mutable_batch()->mutable_warmup()->set_fraction(0.25);
  stable_.mutable_validation()->mutable_every()->set_fraction(0.25);
  stable_ = *ResolveRunSpec(stable_);
  v1::RunSpec asked;
  const auto resolved = [&] { return ResolveRunSpec(BranchSpec(stable_, 12, asked).value()); };
  ASSERT_OK(resolved());
  EXPECT_EQ(resolved()->num_steps(), 14);
  EXPECT_EQ(resolved()->batch().warmup().ShortDebugString(), "steps: 6");
  EXPECT_EQ(resolved()->validation().every().ShortDebugString(), "fraction: 0.25");
  asked.mutable_validation()->mutable_every()->set_steps(5);
  ASSERT_OK(resolved());
  EXPECT_EQ(resolved()->validation().every().ShortDebugString(), "steps: 5");
  EXPECT_EQ(resolved()->validation().windows(), stable_.validation().windows());
}

// Experts grow over the ten steps of the source, and go on in a branch of seven as they did there.
TEST_F(BranchTest, GrowthOfExpertsMayOutlastABranch) {
  v1::RunSpec source = TinyDenseSpec(dataset_, 10);
  source.mutable_optimizer()->set_schedule(v1::CONSTANT);
  v1::RoutingConfig* const routing = source.mutable_model()->mutable_routing();
  routing->set_router(v1::TOKEN_CHOICE);
  routing->set_num_experts(8);
  source.mutable_growth()->set_first(1);
  source = ResolveRunSpec(source).value();
  v1::RunSpec asked = Decay([](auto* d) { d->set_steps(2); });
  asked.set_branch_from("run-000001@5");
  ASSERT_OK_AND_ASSIGN(const v1::RunSpec branch,
                       ResolveRunSpec(BranchSpec(source, 5, asked).value()));
  EXPECT_EQ(branch.num_steps(), 7);
  EXPECT_EQ(ResolveRunSpec(branch)->DebugString(), branch.DebugString());
  const ExpertGrowth before = GrowthOf(source.growth(), 10), after = GrowthOf(branch.growth(), 7);
  for (int64_t step = 0; step < 7; ++step) {
    EXPECT_EQ(ActiveExperts(after, step), ActiveExperts(before, step)) << step;
  }
  // Elsewhere growth ends with the run at the latest.
  source.mutable_growth()->set_until(1.5);
  EXPECT_FAILS(ResolveRunSpec(source), absl::StatusCode::kInvalidArgument,
               "growth.until: got 1.5, expected more than 0 and at most 1");
}

TEST_F(BranchTest, RefusesOtherRanksWhereTheBatchGrows) {
  v1::RunSpec asked;
  asked.set_world_size(2);
  EXPECT_EQ(ErrorOf(12, asked), "");
  stable_.mutable_batch()->set_first_batch_size(2);
  stable_.mutable_batch()->mutable_warmup()->set_steps(6);
  stable_ = *ResolveRunSpec(stable_);
  EXPECT_THAT(ErrorOf(12, asked),
              HasSubstr("world_size: got 2 for a branch of a run whose batch grows, expected 1"));
  asked.set_world_size(1);
  EXPECT_EQ(BranchSpec(stable_, 12, asked)->world_size(), 1);
}

// The oracle is a run that was launched with as many ranks.
TEST_F(BranchTest, OtherRanksHaveTheirOwnThreads) {
  stable_.set_threads_per_rank(1000);
  const auto threads = [&](const v1::RunSpec& asked) {
    return ResolveRunSpec(BranchSpec(stable_, 12, asked).value())->threads_per_rank();
  };
  v1::RunSpec asked, launched = TinySpec(dataset_, 24);
  EXPECT_EQ(threads(asked), 1000);
  asked.set_world_size(1);
  EXPECT_EQ(threads(asked), 1000) << "no other ranks";
  asked.set_world_size(2);
  launched.set_world_size(2);
  launched.clear_threads_per_rank();
  EXPECT_EQ(threads(asked), ResolveRunSpec(launched)->threads_per_rank());
  asked.set_threads_per_rank(3);
  EXPECT_EQ(threads(asked), 3);
}

TEST_F(BranchTest, RefusesToEndWithinAWarmUp) {
  stable_.mutable_upcycling()->set_dense_fraction(0.5);
  stable_ = *ResolveRunSpec(stable_);
  EXPECT_THAT(ErrorOf(8, Decay([](auto* d) { d->set_steps(4); })),
              HasSubstr("branch: got 12 steps, expected more than the 12 of the dense warm-up; "
                        "branch later or decay longer"));
  EXPECT_EQ(ErrorOf(8, Decay([](auto* d) { d->set_steps(5); })), "");
  stable_.mutable_upcycling()->set_dense_fraction(0);
  stable_.mutable_batch()->set_first_batch_size(2);
  stable_.mutable_batch()->mutable_warmup()->set_steps(16);
  stable_ = *ResolveRunSpec(stable_);
  EXPECT_THAT(ErrorOf(8, Decay([](auto* d) { d->set_steps(7); })),
              HasSubstr("got 15 steps, expected at least the 16 over which the batch grows"));
  EXPECT_EQ(ErrorOf(8, Decay([](auto* d) { d->set_steps(8); })), "");
}

TEST_F(BranchTest, RefusesStepsWhereTheRateIsNotConstant) {
  EXPECT_THAT(ErrorOf(2, {}), HasSubstr("got step 2, expected 3 to 20"));
  EXPECT_THAT(ErrorOf(21, {}), HasSubstr("got step 21, expected 3 to 20"));
  stable_.mutable_optimizer()->set_schedule(v1::COSINE);
  EXPECT_THAT(ErrorOf(12, {}), HasSubstr("schedule COSINE, expected WSD or CONSTANT"));
}

TEST_F(BranchTest, RefusesWhatTheCheckpointDetermines) {
  const std::pair<std::string, std::function<void(v1::RunSpec*)>> changes[] = {
      {"model", [](auto* s) { s->mutable_model()->set_num_layers(3); }},
      {"batch.global_batch_size", [](auto* s) { s->mutable_batch()->set_global_batch_size(8); }},
      {"seed", [](auto* s) { s->set_seed(3); }},
      {"num_steps", [](auto* s) { s->set_num_steps(100); }},
      {"dataset_dir", [](auto* s) { s->set_dataset_dir("/x"); }},
      {"optimizer", [](auto* s) { s->mutable_optimizer()->set_learning_rate(1); }},
      {"growth", [](auto* s) { s->mutable_growth()->set_last(4); }},
      {"finetuning", [](auto* s) { s->mutable_finetuning()->set_label_smoothing(0.1); }},
  };
  for (const auto& [field, change] : changes) {
    v1::RunSpec asked;
    change(&asked);
    EXPECT_THAT(ErrorOf(12, asked), HasSubstr(field));
    EXPECT_THAT(ErrorOf(12, asked), HasSubstr("leave it unset"));
  }
  EXPECT_THAT(ErrorOf(12, Decay([](auto* d) { d->set_fraction(1); })),
              HasSubstr("at least 0 and below 1"));
}

// The oracle is the run that had this decay from the start.
TEST_F(BranchTest, TrainsAsTheRunThatHadThisDecayFromTheStart) {
  const RunDirectory stable(NewDirectory("run")), branch(NewDirectory("run"));
  ASSERT_EQ(*TrainAlone(stable, stable_), TrainingOutcome::kComplete);
  const auto asked = Decay([](auto* d) { d->set_steps(6); });
  const auto spec = ResolveRunSpec(*BranchSpec(stable_, 12, asked));
  ASSERT_TRUE(spec.ok()) << spec.status();
  const auto checkpoint = FindBranchCheckpoint(stable, 12);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  ASSERT_TRUE(CopyBranchCheckpoint(*checkpoint, branch).ok());
  ASSERT_TRUE(CopyBranchCheckpoint(*checkpoint, branch).ok()) << "a repeated call changes nothing";
  ASSERT_EQ(*TrainAlone(branch, *spec), TrainingOutcome::kComplete);
  EXPECT_EQ(branch.ReadMetrics(0)->front().step(), 13);

  const RunDirectory direct(NewDirectory("run"));
  ASSERT_EQ(*TrainAlone(direct, *spec), TrainingOutcome::kComplete);
  EXPECT_EQ(NewestWeights(branch), NewestWeights(direct));
  EXPECT_TRUE(VerifyCheckpoint(*checkpoint).ok()) << "the source is not touched";
}

TEST_F(BranchTest, ACopyInAnotherHomeHasTheSameBase) {
  const fs::path home = NewDirectory("home"), other = NewDirectory("home");
  const RunDirectory base(home / "runs/base"), tuned(home / "runs/tuned");
  const v1::RunSpec dense = TinyDenseSpec(dataset_, 2);
  ASSERT_OK(base.WriteSpec(dense));
  ASSERT_OK(TrainAlone(base, dense));
  const v1::RunSpec adapters = TinyAdapterSpec(dataset_, base, 2);
  ASSERT_OK(tuned.WriteSpec(adapters));
  ASSERT_OK(TrainAlone(tuned, adapters));
  const fs::path checkpoint = CheckpointPath(tuned.checkpoints(), 2);
  const std::string expected = ReadCheckpointState(checkpoint)->partial.base().checkpoint();
  ASSERT_TRUE(fs::exists(expected)) << expected;
  for (const fs::path& in : {home, other}) {
    const RunDirectory branch(in / "runs/branch");
    ASSERT_OK(CopyBranchCheckpoint(checkpoint, branch));
    const fs::path copy = CheckpointPath(branch.checkpoints(), 2);
    EXPECT_OK(VerifyCheckpoint(copy));
    EXPECT_EQ(ReadCheckpointState(copy)->partial.base().checkpoint(), expected);
  }
  EXPECT_OK(VerifyCheckpoint(checkpoint)) << "the source is not touched";
}

TEST_F(BranchTest, NamesTheNearestCheckpoints) {
  const RunDirectory run(NewDirectory("run"));
  const auto error = [&](int64_t step) {
    return std::string(FindBranchCheckpoint(run, step).status().message());
  };
  EXPECT_THAT(error(9), HasSubstr("has no checkpoint of step 9; it has none yet"));
  for (const int64_t step : {4, 8, 12})
    fs::create_directories(CheckpointPath(run.checkpoints(), step));
  EXPECT_THAT(error(9), HasSubstr("; the nearest are 8 and 12; checkpoint.keep_every_steps"));
  EXPECT_THAT(error(15), HasSubstr("; the nearest is 12;"));
  // A branch cannot start during the decay, so those steps are not suggested.
  fs::create_directories(CheckpointPath(run.checkpoints(), 24));
  EXPECT_THAT(error(15), HasSubstr("; the nearest are 12 and 24;")) << "its settings are unknown";
  ASSERT_OK(run.WriteSpec(stable_));
  EXPECT_THAT(error(15), HasSubstr("; the nearest is 12;"));
  stable_.mutable_optimizer()->set_schedule(v1::COSINE);
  ASSERT_OK(run.WriteSpec(stable_));
  EXPECT_THAT(error(15), HasSubstr("; it has none where its learning rate is constant"));
}

TEST_F(BranchTest, RefusesADamagedCheckpoint) {
  const RunDirectory stable(NewDirectory("run")), branch(NewDirectory("run"));
  ASSERT_TRUE(TrainAlone(stable, stable_).ok());
  const fs::path checkpoint = *FindBranchCheckpoint(stable, 8);
  fs::resize_file(checkpoint / "model.safetensors", 100);
  EXPECT_TRUE(absl::IsDataLoss(CopyBranchCheckpoint(checkpoint, branch)));
  EXPECT_FALSE(fs::exists(CheckpointPath(branch.checkpoints(), 8)));
}

}  // namespace branch_test
}  // namespace braid
