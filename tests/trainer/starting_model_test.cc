// Runs that start from the weights of another run (RunSpec.init_from).
#include "trainer/starting_model.h"

#include <gtest/gtest.h>

#include "base/atomic_file.h"
#include "model/config/model_config.h"
#include "runs/checkpoint_directory.h"
#include "runs/run_spec.h"
#include "tests/base/status_matchers.h"
#include "tests/trainer/tiny_run.h"
#include "trainer/training_state.h"

namespace braid {
namespace starting_model_test {

namespace fs = std::filesystem;

class StartingModelTest : public testing::Test {
 protected:
  StartingModelTest() : dataset_(NewDirectory("data")) { WriteTinyDataset(dataset_); }

  // Trains a run of 6 steps: of a dense model, or with 4 experts.
  RunDirectory SourceRun(bool dense) {
    RunDirectory run(NewDirectory("source"));
    v1::RunSpec spec = TinySpec(dataset_, 6);
    if (dense) {
      *spec.mutable_model() = DenseCounterpart(spec.model());
      spec.clear_upcycling();
      spec = ResolveRunSpec(spec).value();
    }
    EXPECT_OK(run.WriteSpec(spec));
    EXPECT_OK(TrainAlone(run, spec));
    return run;
  }

  // Returns a spec as a user writes it, with only the starting point and the number of steps.
  v1::RunSpec Asked(const fs::path& init_from) {
    v1::RunSpec spec;
    spec.set_dataset_dir(dataset_.string());
    spec.set_init_from(init_from.string());
    spec.set_num_steps(4);
    spec.set_threads_per_rank(1);
    spec.mutable_model()->mutable_routing()->set_segment_length(8);
    return spec;
  }

  // Returns the loss of the first step.
  static double FirstLoss(const RunDirectory& run) { return run.ReadMetrics(0)->front().loss(); }

  RunDirectory Trained(const v1::RunSpec& spec) {
    RunDirectory run(NewDirectory("run"));
    const auto resolved = ResolveRunSpec(spec);
    EXPECT_OK(resolved);
    EXPECT_OK(run.WriteSpec(*resolved));
    EXPECT_OK(TrainAlone(run, *resolved));
    return run;
  }

  static fs::path NewestOf(const RunDirectory& run) {
    std::vector<std::string> skipped;
    return **NewestGoodCheckpoint(run.checkpoints(), &skipped);
  }

  fs::path dataset_;
};

TEST_F(StartingModelTest, ShapeAndWeightsAreThoseOfTheSource) {
  const RunDirectory source = SourceRun(/*dense=*/true);
  ASSERT_OK_AND_ASSIGN(const v1::RunSpec spec, ResolveRunSpec(Asked(source.root())));
  EXPECT_EQ(spec.init_from(), NewestOf(source).string());
  EXPECT_EQ(spec.model().d_model(), 16);
  EXPECT_EQ(spec.model().d_ff(), 32);
  ASSERT_OK_AND_ASSIGN(const auto model, StartingModel(spec));
  ASSERT_OK_AND_ASSIGN(const auto weights, LoadModel(spec.init_from()));
  EXPECT_TRUE(std::ranges::equal(model->values(), weights->values()));
}

TEST_F(StartingModelTest, DenseWeightsBecomeExpertsWithTheSameLoss) {
  const RunDirectory source = SourceRun(/*dense=*/true);
  const double dense = FirstLoss(Trained(Asked(source.root())));
  v1::RunSpec spec = Asked(source.root());
  spec.mutable_model()->mutable_routing()->set_num_experts(4);
  EXPECT_NEAR(FirstLoss(Trained(spec)), dense, 1e-5);  // during the dense warm-up
  spec.mutable_upcycling()->set_dense_fraction(0);
  const RunDirectory at_once = Trained(spec);
  EXPECT_NEAR(FirstLoss(at_once), dense, 1e-5);
  EXPECT_TRUE(at_once.ReadMetrics(0)->front().upcycled());
}

TEST_F(StartingModelTest, ExpertsStayExperts) {
  const RunDirectory source = SourceRun(/*dense=*/false);
  const RunDirectory run = Trained(Asked(source.root()));
  const auto metrics = run.ReadMetrics(0);
  EXPECT_TRUE(metrics->front().upcycled());
  ASSERT_OK_AND_ASSIGN(const auto model, StartingModel(*run.ReadSpec()));
  ASSERT_OK_AND_ASSIGN(const auto weights, LoadModel(NewestOf(source)));
  EXPECT_TRUE(std::ranges::equal(model->values(), weights->values()));
}

TEST_F(StartingModelTest, ResumeIsBitExactAndDoesNotNeedTheSource) {
  const RunDirectory source = SourceRun(/*dense=*/true);
  v1::RunSpec spec = Asked(source.root());
  spec.mutable_model()->mutable_routing()->set_num_experts(4);
  spec = ResolveRunSpec(spec).value();
  const RunDirectory whole = Trained(spec), stopped(NewDirectory("stopped"));
  ASSERT_OK(stopped.WriteSpec(spec));
  ASSERT_OK(TrainAlone(stopped, spec, /*stop_after=*/2));
  fs::remove_all(source.root());
  ASSERT_OK_AND_ASSIGN(const v1::RunSpec again, ResolveRunSpec(spec));
  EXPECT_EQ(again.DebugString(), spec.DebugString());
  ASSERT_OK(TrainAlone(stopped, again));
  EXPECT_EQ(NewestWeights(stopped), NewestWeights(whole));
  EXPECT_EQ(LossLines(stopped), LossLines(whole));
}

TEST_F(StartingModelTest, RefusesIncompatibleWeights) {
  const RunDirectory dense = SourceRun(/*dense=*/true), experts = SourceRun(/*dense=*/false);
  v1::RunSpec spec = Asked(dense.root());
  spec.mutable_model()->set_d_model(32);
  EXPECT_FAILS(ResolveRunSpec(spec), absl::StatusCode::kInvalidArgument, "init_from", "d_model",
               "16", "32");
  spec = Asked(experts.root());
  spec.mutable_model()->mutable_routing()->set_num_experts(8);
  EXPECT_FAILS(ResolveRunSpec(spec), absl::StatusCode::kInvalidArgument, "num_experts", "got 8",
               "expected 4");
  spec = Asked(experts.root());
  spec.mutable_model()->mutable_routing()->add_moe_layers(1);
  EXPECT_FAILS(ResolveRunSpec(spec), absl::StatusCode::kInvalidArgument, "moe_layers", "got 1",
               "expected 0,1");
  spec = Asked("/nowhere");
  EXPECT_FAILS(ResolveRunSpec(spec), absl::StatusCode::kNotFound, "/nowhere");
}

TEST_F(StartingModelTest, RefusesDataOfAnotherTokenizer) {
  const RunDirectory source = SourceRun(/*dense=*/true);
  ASSERT_OK(WriteFileAtomically(dataset_ / "tokenizer.model", "another"));
  EXPECT_FAILS(ResolveRunSpec(Asked(source.root())), absl::StatusCode::kInvalidArgument,
               "init_from", "another tokenizer", "tokenizer.model_path");
}

TEST_F(StartingModelTest, DamagedWeightsAreRefused) {
  const RunDirectory source = SourceRun(/*dense=*/true);
  const v1::RunSpec spec = ResolveRunSpec(Asked(source.root())).value();
  fs::resize_file(NewestOf(source) / "model.safetensors", 100);
  EXPECT_FAILS(StartingModel(spec), absl::StatusCode::kDataLoss, "model.safetensors");
}

TEST_F(StartingModelTest, OlderCheckpointMustBeNamed) {
  RunDirectory source(NewDirectory("source"));
  v1::RunSpec trained = TinySpec(dataset_, 6);
  trained.mutable_checkpoint()->set_every_steps(3);
  EXPECT_OK(source.WriteSpec(trained));
  EXPECT_OK(TrainAlone(source, trained));
  const fs::path newest = NewestOf(source);
  fs::resize_file(newest / "model.safetensors", 100);
  const fs::path older = NewestOf(source);
  ASSERT_NE(older, newest);
  EXPECT_FAILS(ResolveRunSpec(Asked(source.root())), absl::StatusCode::kFailedPrecondition,
               newest.string(), "is damaged", older.string());
  ASSERT_OK_AND_ASSIGN(const v1::RunSpec spec, ResolveRunSpec(Asked(older)));
  EXPECT_EQ(spec.init_from(), older.string());
}

}  // namespace starting_model_test
}  // namespace braid
