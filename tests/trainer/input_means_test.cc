#include "trainer/input_means.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <sstream>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "model/config/parameter_layout.h"
#include "runs/checkpoint_directory.h"
#include "runs/model_path.h"
#include "runs/run_spec.h"
#include "tests/base/status_matchers.h"
#include "tests/trainer/parallel/threaded_communicator.h"
#include "tests/trainer/tiny_run.h"
#include "trainer/training_data.h"
#include "trainer/training_loop.h"
#include "trainer/training_state.h"

namespace braid {
namespace input_means_test {

namespace fs = std::filesystem;

v1::RunSpec CenteredSpec(const fs::path& dataset, int64_t num_steps) {
  v1::RunSpec spec = TinySpec(dataset, num_steps);
  v1::RoutingConfig* routing = spec.mutable_model()->mutable_routing();
  routing->set_num_experts(8);
  routing->set_router(v1::TOKEN_CHOICE);
  routing->mutable_token()->set_gate(v1::TokenRouting::FROZEN);
  routing->mutable_token()->set_centered_input(true);
  spec.mutable_upcycling()->set_dense_fraction(0);
  return ResolveRunSpec(spec).value();
}

// Returns the means of the newest checkpoint, layer by layer.
std::vector<float> MeansOf(const RunDirectory& run) {
  std::vector<float> means;
  const auto model = LoadModel(FindModel(run.root(), true)->checkpoint).value();
  for (const Parameter& p : model->parameters()) {
    if (p.name.ends_with(kInputMean)) means.insert(means.end(), p.value.begin(), p.value.end());
  }
  return means;
}

TEST(InputMeansTest, AreThoseOfAllBatchesAndLaterMostlyOfTheLatest) {
  const fs::path dataset = NewDirectory("data");
  WriteTinyDataset(dataset);
  const v1::RunSpec spec = CenteredSpec(dataset, 1);
  const auto model = LanguageModel::Create(spec.model(), 1).value();
  ASSERT_EQ(NumInputMeans(spec.model()), 2 * 16u);
  const auto mean = [&](size_t i) {
    std::vector<float> all;
    for (const Parameter& p : model->parameters()) {
      if (p.name.ends_with(kInputMean)) all.insert(all.end(), p.value.begin(), p.value.end());
    }
    return all[i];
  };
  std::vector<double> batch(2 * 16);
  for (int64_t step = 0; step < 100; ++step) {
    for (size_t i = 0; i < batch.size(); ++i) batch[i] = static_cast<double>((step + i) % 5);
    MoveInputMeans(batch, step, *model);
    if (step == 4) {
      for (size_t i = 0; i < batch.size(); ++i) EXPECT_NEAR(mean(i), 2, 1e-6);
    }
  }
  const double before = mean(17);
  std::ranges::fill(batch, 5.0);
  MoveInputMeans(batch, 5000, *model);
  EXPECT_NEAR(mean(17), before + 0.01 * (5 - before), 1e-6);
}

TEST(InputMeansTest, AreTheSameForAnyMicroBatchesAndRanksAndThroughAResume) {
  const fs::path dataset = NewDirectory("data");
  WriteTinyDataset(dataset);
  const v1::RunSpec spec = CenteredSpec(dataset, 12);
  const RunDirectory whole(NewDirectory("run")), stopped(NewDirectory("run"));
  ASSERT_OK(whole.WriteSpec(spec));
  ASSERT_EQ(*TrainAlone(whole, spec), TrainingOutcome::kComplete);
  ASSERT_EQ(*TrainAlone(stopped, spec, 7), TrainingOutcome::kInterrupted);
  ASSERT_EQ(*TrainAlone(stopped, spec), TrainingOutcome::kComplete);
  EXPECT_EQ(LossLines(stopped), LossLines(whole));
  EXPECT_EQ(NewestWeights(stopped), NewestWeights(whole));
  const std::vector<float> means = MeansOf(whole);
  ASSERT_EQ(means.size(), 2 * 16u);
  EXPECT_GT(*std::ranges::max_element(means), 0.05f) << "inputs have a mean";
  EXPECT_TRUE(std::ranges::all_of(means, [](float mean) { return std::abs(mean) < 4; }));
  for (const int ranks : {1, 2, 3}) {
    v1::RunSpec other = spec;
    other.set_world_size(ranks);
    other.mutable_batch()->set_micro_batch_size(1);
    const RunDirectory run(NewDirectory("run"));
    ASSERT_OK(run.WriteSpec(other));
    RunThreadedRanks(ranks, [&](Communicator& communicator) {
      std::ostringstream out;
      LoopEnvironment environment;
      environment.communicator = &communicator;
      environment.now = StepClock();
      environment.out = &out;
      return TrainingLoop(run, other, environment).Run().status();
    });
    const std::vector<float> theirs = MeansOf(run);
    ASSERT_EQ(theirs.size(), means.size());
    for (size_t i = 0; i < means.size(); ++i) EXPECT_NEAR(theirs[i], means[i], 1e-4) << ranks;
  }
}

// The experts are new then, and their means are zeros.
TEST(InputMeansTest, BeginWithTheFirstBatchAfterADenseWarmUp) {
  const fs::path dataset = NewDirectory("data");
  WriteTinyDataset(dataset);
  v1::RunSpec spec = CenteredSpec(dataset, 8);
  spec.mutable_upcycling()->set_dense_fraction(0.5);
  spec = ResolveRunSpec(spec).value();
  ASSERT_EQ(DenseSteps(spec), 4);
  const RunDirectory run(NewDirectory("run"));
  ASSERT_OK(run.WriteSpec(spec));
  ASSERT_EQ(*TrainAlone(run, spec, 4), TrainingOutcome::kInterrupted);
  SingleProcess alone;
  const TrainingData data = TrainingData::Open(spec, true).value();
  TrainingState dense =
      RestoreState(CheckpointPath(run.checkpoints(), 4), spec, data.key(), 0).value();
  const TrainingState experts = UpcycledState(std::move(dense), spec, alone).value();
  EXPECT_EQ(experts.dense_updates, 4);
  const Batch batch = data.Load(4, 0, 1)->batch;
  const TrainResult result =
      experts.model->ForwardBackward(batch.inputs, batch.targets, batch.batch_size, 1, false)
          .value();
  ASSERT_EQ(*TrainAlone(run, spec, 1), TrainingOutcome::kInterrupted);
  EXPECT_EQ(ReadCheckpointState(CheckpointPath(run.checkpoints(), 5))->dense_updates, 4);
  const std::vector<float> means = MeansOf(run);
  ASSERT_EQ(means.size(), result.input_sums.size());
  for (size_t i = 0; i < means.size(); ++i) {
    EXPECT_NEAR(means[i], result.input_sums[i] / static_cast<double>(result.num_tokens), 1e-5) << i;
  }
  // Experts of another run have no dense warm-up.
  v1::RunSpec next = spec;
  next.set_init_from(run.root().string());
  next.clear_upcycling();
  ASSERT_OK_AND_ASSIGN(next, ResolveRunSpec(next));
  EXPECT_EQ(DenseSteps(next), 0);
}

TEST(InputMeansTest, AdaptersKeepTheMeansOfTheirBase) {
  const fs::path dataset = NewDirectory("data");
  WriteTinyDataset(dataset);
  const RunDirectory base(NewDirectory("run")), tuned(NewDirectory("run"));
  const v1::RunSpec first = CenteredSpec(dataset, 4);
  ASSERT_OK(base.WriteSpec(first));
  ASSERT_EQ(*TrainAlone(base, first), TrainingOutcome::kComplete);
  v1::RunSpec asked;
  asked.set_dataset_dir(dataset.string());
  asked.set_init_from(base.root().string());
  asked.set_num_steps(4);
  asked.set_threads_per_rank(1);
  asked.mutable_finetuning()->mutable_lora();
  ASSERT_OK_AND_ASSIGN(const v1::RunSpec spec, ResolveRunSpec(asked));
  ASSERT_OK(tuned.WriteSpec(spec));
  ASSERT_EQ(*TrainAlone(tuned, spec), TrainingOutcome::kComplete);
  EXPECT_EQ(MeansOf(tuned), MeansOf(base));
}

}  // namespace input_means_test
}  // namespace braid
