// Runs that train adapters: ranks, checkpoints, resumes, and the base that they need.
#include <algorithm>
#include <cmath>
#include <sstream>
#include <string>
#include <vector>

#include "formats/safetensors.h"
#include "gmock/gmock.h"
#include "model/config/finetuning_config.h"
#include "runs/run_spec.h"
#include "tests/base/largest_difference.h"
#include "tests/trainer/finetuning_fixture.h"
#include "tests/trainer/parallel/threaded_communicator.h"
#include "trainer/parallel/gradient_reducer.h"
#include "trainer/training_state.h"

namespace braid {
namespace adapter_runs_test {

namespace fs = std::filesystem;
using testing::HasSubstr;

using AdapterRunsTest = FinetuningFixture;

TEST_F(AdapterRunsTest, RanksShareAdaptersAndGiveTheSameCurve) {
  const v1::RunSpec spec = TinyAdapterSpec(packed_, base(), 12);
  const auto expected = *Trained(spec).ReadMetrics(0);
  EXPECT_LT(expected.back().loss(), expected.front().loss());
  for (const int world_size : {2, 3}) {
    v1::RunSpec ranks = spec;
    ranks.set_world_size(world_size);
    ranks.mutable_reduction()->set_bucket_bytes(1024);
    ranks.mutable_batch()->set_micro_batch_size(1);
    const RunDirectory run(NewDirectory("ranks"));
    std::ostringstream out;
    const auto results = RunThreadedRanks(world_size, [&](Communicator& communicator) {
      LoopEnvironment environment;
      environment.communicator = &communicator;
      environment.now = StepClock();
      environment.out = &out;
      TrainingLoop loop(run, ranks, environment);
      const absl::Status status = loop.Run().status();
      const size_t adapters = loop.state().model->trained_values().size();
      EXPECT_LE(loop.state().m.size(), adapters / world_size + kShardAlignment + 1);
      EXPECT_LT(5 * adapters, 2 * loop.state().model->values().size());
      return status;
    });
    for (const absl::Status& status : results) EXPECT_OK(status);
    const auto got = *run.ReadMetrics(0);
    ASSERT_EQ(got.size(), expected.size());
    for (size_t i = 0; i < got.size(); ++i) {
      EXPECT_NEAR(got[i].loss(), expected[i].loss(), 2e-5 * expected[i].loss()) << i;
      EXPECT_NEAR(got[i].validation().loss(), expected[i].validation().loss(), 1e-4) << i;
    }
  }
}

TEST_F(AdapterRunsTest, FrozenWeightsKeepTheirBytes) {
  const auto before = LoadModel(NewestOf(base())).value();
  SingleProcess alone;
  std::ostringstream out;
  LoopEnvironment environment;
  environment.communicator = &alone;
  environment.now = StepClock();
  environment.out = &out;
  TrainingLoop loop(RunDirectory(NewDirectory("run")), TinyAdapterSpec(packed_, base(), 100),
                    environment);
  ASSERT_OK(loop.Run());
  LanguageModel& model = *loop.state().model;
  const size_t frozen = model.values().size() - model.trained_values().size();
  ASSERT_EQ(frozen, before->values().size());
  EXPECT_TRUE(std::ranges::equal(model.values().first(frozen), before->values()));
}

TEST_F(AdapterRunsTest, CheckpointsHoldAdaptersAndMergeOnLoading) {
  v1::RunSpec spec = TinyAdapterSpec(packed_, base(), 10);
  const RunDirectory run = Trained(spec);
  const fs::path checkpoint = NewestOf(run);
  const SafetensorsFile file = SafetensorsFile::Open(checkpoint / "model.safetensors").value();
  for (const TensorInfo& tensor : file.tensors()) EXPECT_THAT(tensor.name, HasSubstr(".lora_"));
  EXPECT_EQ(file.tensors().size(), 2u * 2 * 7);
  const CheckpointState record = ReadCheckpointState(checkpoint).value();
  EXPECT_EQ(record.partial.base().checkpoint(), NewestOf(base()).string());
  // The model in training computes what the loaded one does, without adapters.
  const TrainingState state = RestoreState(checkpoint, spec, record.dataset_key, 0).value();
  const auto merged = LoadModel(checkpoint).value();
  EXPECT_FALSE(IsPartial(merged->finetuning()));
  const std::vector<int32_t> tokens(examples_[2].tokens);
  const auto a = state.model->Logits(tokens, 1).value(), b = merged->Logits(tokens, 1).value();
  const auto c = LoadModel(NewestOf(base()))->get()->Logits(tokens, 1).value();
  double range = 0;
  for (const float logit : a) range = std::max<double>(range, std::abs(logit));
  EXPECT_LT(LargestDifference(a, b), 1e-4 * range);
  EXPECT_GT(LargestDifference(a, c), 0.1);
  // A run may start from a run with adapters.
  v1::RunSpec next = TinyAdapterSpec(packed_, run, 2);
  EXPECT_EQ(next.init_from(), checkpoint.string());
  const auto start = InitialState(next, 0).value();
  const auto continued = start.model->Logits(tokens, 1).value();
  for (size_t i = 0; i < b.size(); ++i) EXPECT_NEAR(continued[i], b[i], 1e-4 * range);
}

TEST_F(AdapterRunsTest, StoppedRunsResumeToTheSameBits) {
  v1::RunSpec spec = TinyAdapterSpec(packed_, base(), 11);
  spec.mutable_checkpoint()->set_every_steps(3);
  const RunDirectory whole = Trained(spec);
  for (const bool self_contained : {false, true}) {
    spec.mutable_finetuning()->set_self_contained(self_contained);
    const RunDirectory run(NewDirectory("stopped"));
    ASSERT_OK(run.WriteSpec(spec));
    for (const int64_t stop_after : {2, 3, 4}) {
      EXPECT_EQ(TrainAlone(run, spec, stop_after).value(), TrainingOutcome::kInterrupted);
    }
    ASSERT_OK(TrainAlone(run, spec));
    EXPECT_EQ(LossLines(run), LossLines(whole));
    EXPECT_EQ(NewestWeights(run) == NewestWeights(whole), !self_contained);
    const auto expected = LoadModel(NewestOf(whole)).value();
    EXPECT_TRUE(std::ranges::equal(LoadModel(NewestOf(run)).value()->values(), expected->values()));
  }
}

TEST_F(AdapterRunsTest, AnotherBaseIsRefused) {
  const RunDirectory own = TinyBase(text_);
  v1::RunSpec spec = TinyAdapterSpec(packed_, own, 2);
  v1::RunSpec contained = spec;
  contained.mutable_finetuning()->set_self_contained(true);
  const RunDirectory run = Trained(spec), copy = Trained(contained);
  const auto expected = LoadModel(NewestOf(run)).value();
  const fs::path checkpoint = NewestOf(own), aside = checkpoint.string() + "-aside";
  fs::rename(checkpoint, aside);
  EXPECT_FAILS(LoadModel(NewestOf(run)), absl::StatusCode::kFailedPrecondition,
               "does not exist; restore that directory");
  EXPECT_TRUE(std::ranges::equal(LoadModel(NewestOf(copy)).value()->values(), expected->values()))
      << "self-contained";
  // A checkpoint of the same shape with other weights takes its place.
  v1::RunSpec other = TinyDenseSpec(text_, 6);
  other.set_seed(5);
  fs::rename(NewestOf(Trained(other)), checkpoint);
  EXPECT_FAILS(LoadModel(NewestOf(run)), absl::StatusCode::kFailedPrecondition,
               "tensor model.embed_tokens.weight: got checksum");
  const CheckpointState record = ReadCheckpointState(NewestOf(run)).value();
  EXPECT_FAILS(RestoreState(NewestOf(run), spec, record.dataset_key, 0),
               absl::StatusCode::kFailedPrecondition, "not the base that");
  fs::remove_all(checkpoint);
  fs::rename(aside, checkpoint);
  EXPECT_OK(LoadModel(NewestOf(run)));
  spec.mutable_finetuning()->mutable_lora()->set_alpha(3);
  EXPECT_FAILS(RestoreState(NewestOf(run), spec, record.dataset_key, 0),
               absl::StatusCode::kFailedPrecondition, "was trained with finetuning");
}

}  // namespace adapter_runs_test
}  // namespace braid
