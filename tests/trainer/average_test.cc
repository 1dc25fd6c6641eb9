// The exponential moving average of the weights: in training, in checkpoints and as a model.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "evaluation/perplexity.h"
#include "inference/huggingface/model_export.h"
#include "inference/huggingface/model_import.h"
#include "model/config/shard.h"
#include "runs/checkpoint_directory.h"
#include "runs/model_path.h"
#include "runs/run_spec.h"
#include "runs/starting_point.h"
#include "tests/base/status_matchers.h"
#include "tests/trainer/parallel/threaded_communicator.h"
#include "tests/trainer/tiny_run.h"
#include "tests/trainer/tiny_text_run.h"
#include "trainer/training_state.h"

namespace braid {
namespace average_test {

using testing::HasSubstr;

constexpr double kDecay = 0.8;

class AverageTest : public testing::Test {
 protected:
  AverageTest() : dataset_(NewDirectory("data")) {
    WriteTinyDataset(dataset_);
    SetModelThreads(1);
  }

  // Checkpoints after every step, of which all are kept.
  static v1::RunSpec WithAverage(v1::RunSpec spec, double decay = kDecay) {
    spec.mutable_optimizer()->set_ema_decay(decay);
    spec.mutable_checkpoint()->set_every_steps(1);
    spec.mutable_checkpoint()->set_keep_every_steps(1);
    return *ResolveRunSpec(spec);
  }

  static std::vector<float> ValuesOf(const std::string& reference) {
    const ModelPath path = *FindModel(reference, /*strict=*/true);
    const auto model = *LoadModel(path.checkpoint, path.state.use_average);
    return {model->values().begin(), model->values().end()};
  }

  // Returns the loss of a model on the held-out windows of a dataset.
  static double HeldOutLoss(const std::string& reference, const std::filesystem::path& dataset) {
    v1::EvaluateRequest request;
    request.add_models(reference);
    request.set_dataset_dir(dataset.string());
    request.set_num_threads(1);
    double loss = 0;
    EXPECT_OK(Evaluate(request, nullptr, [&](const v1::EvaluateEvent& event) {
      if (event.has_result()) loss = event.result().evaluations(0).total().loss();
    }));
    return loss;
  }

  static std::string CheckpointOf(const RunDirectory& run, int64_t step) {
    return CheckpointPath(run.checkpoints(), step).string();
  }

  static RunDirectory TrainedOn(const v1::RunSpec& spec) {
    const RunDirectory run(NewDirectory("run"));
    EXPECT_OK(TrainOnRanks(run, spec));
    EXPECT_TRUE(run.WriteSpec(spec).ok());
    return run;
  }

  std::filesystem::path dataset_;
};

// The mean of the weights of all steps, each weighed kDecay times as much as the next.
TEST_F(AverageTest, IsTheWeightedMeanOfTheWeightsOfAllSteps) {
  const v1::RunSpec spec = WithAverage(TinyDenseSpec(dataset_, 6));
  for (const int ranks : {1, 3}) {
    v1::RunSpec wide = spec;
    wide.set_world_size(ranks);
    const RunDirectory run = TrainedOn(wide);
    std::vector<double> sum;
    double weights = 0;
    for (int64_t step = 1; step <= 6; ++step) {
      const std::vector<float> values = ValuesOf(CheckpointOf(run, step));
      sum.resize(values.size());
      for (size_t i = 0; i < sum.size(); ++i) sum[i] = kDecay * sum[i] + values[i];
      weights = kDecay * weights + 1;
      const std::vector<float> average = ValuesOf(CheckpointOf(run, step) + "@ema");
      for (size_t i = 0; i < sum.size(); ++i) {
        ASSERT_NEAR(average[i], sum[i] / weights, 1e-5) << step;
      }
    }
    EXPECT_EQ(ValuesOf(run.root().string() + "@ema"), ValuesOf(CheckpointOf(run, 6) + "@ema"));
    EXPECT_NE(ValuesOf(run.root().string() + "@ema"), ValuesOf(run.root().string()));
  }
}

// 12 steps of which 3 train the dense model, whose average the experts begin with.
TEST_F(AverageTest, ResumeIsBitExactAlsoAcrossUpcyclingAndSharding) {
  const v1::RunSpec spec = WithAverage(TinySpec(dataset_, 12));
  const RunDirectory whole(NewDirectory("run")), stopped(NewDirectory("run"));
  ASSERT_TRUE(TrainAlone(whole, spec).ok());
  for (const int64_t steps : {2, 2, 3}) ASSERT_TRUE(TrainAlone(stopped, spec, steps).ok());
  ASSERT_TRUE(TrainAlone(stopped, spec).ok());
  EXPECT_EQ(NewestWeights(stopped), NewestWeights(whole));
  v1::RunSpec sharded = spec, replicated = spec;
  sharded.set_world_size(3);
  replicated.set_world_size(3);
  replicated.set_optimizer_sharding(v1::REPLICATED);
  EXPECT_EQ(NewestWeights(TrainedOn(sharded)), NewestWeights(TrainedOn(replicated)));
}

// With many ranks the last ones own no value, and so no part of the average.
TEST_F(AverageTest, RanksWithoutAShareJoinTheUpcycling) {
  v1::RunSpec spec = WithAverage(TinySpec(dataset_, 12));
  SingleProcess alone;
  TrainingState dense = *InitialState(spec, 0);
  const size_t size = dense.model->trained_values().size();
  const TrainingState whole = *UpcycledState(std::move(dense), spec, alone);
  int ranks = 2;
  while (ShardOf(size, ranks - 1, ranks).size() > 0) ++ranks;
  spec.set_world_size(ranks);
  const auto results = RunThreadedRanks(ranks, [&](Communicator& communicator) -> absl::Status {
    ASSIGN_OR_RETURN(TrainingState own, InitialState(spec, communicator.rank()));
    ASSIGN_OR_RETURN(own, UpcycledState(std::move(own), spec, communicator));
    const auto begin = whole.average.begin() + static_cast<int64_t>(own.moments.begin);
    const bool same = own.average.size() == own.moments.size() &&
                      std::equal(own.average.begin(), own.average.end(), begin);
    return same ? absl::OkStatus() : absl::InternalError("the average differs");
  });
  EXPECT_THAT(results, testing::Each(absl::OkStatus()));
}

TEST_F(AverageTest, TrainsTheSameWeightsAsWithout) {
  const v1::RunSpec spec = TinySpec(dataset_, 8);
  const RunDirectory with(NewDirectory("run")), without(NewDirectory("run"));
  ASSERT_TRUE(TrainAlone(with, WithAverage(spec)).ok());
  ASSERT_TRUE(TrainAlone(without, WithAverage(spec, 0)).ok());
  EXPECT_EQ(LossLines(with), LossLines(without));
  EXPECT_EQ(ValuesOf(CheckpointOf(with, 8)), ValuesOf(CheckpointOf(without, 8)));
  const std::string reference = CheckpointOf(without, 8) + "@ema";
  EXPECT_THAT(std::string(FindModel(reference, true).status().message()),
              HasSubstr("step-00000008 has no average of the weights; name "));
  const ModelPath path = *FindModel(CheckpointOf(with, 8) + "@ema", true);
  EXPECT_THAT(path.source.checkpoint(), testing::EndsWith("step-00000008@ema"));
  EXPECT_THAT(std::string(FindStartingPoint(path.source.checkpoint()).status().message()),
              HasSubstr("expected the weights of a checkpoint"));
}

// The average of adapters is merged into the base, which has no average itself.
TEST_F(AverageTest, CoversWhatAFineTuningRunTrains) {
  const RunDirectory base = TinyBase(dataset_);
  const v1::RunSpec spec = WithAverage(TinyAdapterSpec(dataset_, base, 4));
  const RunDirectory run = TrainedOn(spec);
  const std::string newest = CheckpointOf(run, 4);
  const auto average = ValuesOf(newest + "@ema"), trained = ValuesOf(newest);
  const auto start = ValuesOf(base.root().string());
  ASSERT_EQ(average.size(), trained.size());
  size_t between = 0, changed = 0;
  for (size_t i = 0; i < start.size(); ++i) {
    if (trained[i] == start[i]) {
      EXPECT_NEAR(average[i], start[i], 1e-6);
      continue;
    }
    ++changed;
    between += std::abs(average[i] - start[i]) < std::abs(trained[i] - start[i]) ? 1 : 0;
  }
  EXPECT_GT(changed, 100u);
  EXPECT_GT(between, changed / 2);
}

// The exported files are read back as a model that has the average as its weights.
TEST_F(AverageTest, IsWhatIsExportedAndEvaluated) {
  const auto text =
      NewTextDataset(NewTokenizer("the cat sat on the mat and the dog ran after the cat. ", 280));
  const RunDirectory run = TrainedOn(WithAverage(TinyDenseSpec(text, 4)));
  const std::string plain = run.root().string(), average = plain + "@ema";
  const auto directory = NewDirectory("exported");
  v1::ExportRequest to_export;
  to_export.set_model(average);
  to_export.set_output_dir((directory / "files").string());
  to_export.set_num_threads(1);
  ASSERT_OK(Export(to_export));
  v1::ImportRequest to_import;
  to_import.set_source_dir(to_export.output_dir());
  to_import.set_output_dir((directory / "read").string());
  ASSERT_OK(Import(to_import));
  EXPECT_EQ(ValuesOf(to_import.output_dir()), ValuesOf(average));
  EXPECT_NE(ValuesOf(to_import.output_dir()), ValuesOf(plain));
  EXPECT_DOUBLE_EQ(HeldOutLoss(average, text), HeldOutLoss(to_import.output_dir(), text));
  EXPECT_NE(HeldOutLoss(average, text), HeldOutLoss(plain, text));
}

TEST_F(AverageTest, ImpossibleDecaysAreRefused) {
  v1::RunSpec spec = TinySpec(dataset_, 4);
  for (const double decay : {1.0, -0.5}) {
    spec.mutable_optimizer()->set_ema_decay(decay);
    EXPECT_THAT(std::string(ResolveRunSpec(spec).status().message()),
                HasSubstr("optimizer.ema_decay: got"));
  }
}

}  // namespace average_test
}  // namespace braid
