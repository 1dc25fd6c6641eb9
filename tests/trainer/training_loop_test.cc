#include "trainer/training_loop.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "base/atomic_file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "model/config/model_config.h"
#include "runs/branch.h"
#include "runs/checkpoint_directory.h"
#include "runs/run_spec.h"
#include "tests/base/status_matchers.h"
#include "tests/trainer/tiny_run.h"

namespace braid {
namespace training_loop_test {

namespace fs = std::filesystem;
using testing::HasSubstr;

class TrainingLoopTest : public testing::Test {
 protected:
  TrainingLoopTest() : dataset_(NewDirectory("data")) { WriteTinyDataset(dataset_); }

  RunDirectory NewRun() { return RunDirectory(NewDirectory("run")); }

  RunDirectory Finished(const v1::RunSpec& spec) {
    RunDirectory run = NewRun();
    const auto outcome = TrainAlone(run, spec);
    EXPECT_TRUE(outcome.ok()) << outcome.status();
    return run;
  }

  // By value: a range-for over a temporary StatusOr would outlive it.
  static std::vector<v1::StepMetrics> Metrics(const RunDirectory& run) {
    auto metrics = run.ReadMetrics(0);
    EXPECT_TRUE(metrics.ok()) << metrics.status();
    return *std::move(metrics);
  }

  fs::path dataset_;
};

void FlipByte(const fs::path& path) {
  std::string bytes = *ReadFile(path);
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
  ASSERT_TRUE(WriteFileAtomically(path, bytes).ok());
}

TEST_F(TrainingLoopTest, LearnsAndWritesEveryStep) {
  const RunDirectory run = Finished(TinySpec(dataset_, 40));
  const auto metrics = Metrics(run);
  ASSERT_EQ(metrics.size(), 40u);
  EXPECT_LT(metrics.back().loss(), metrics.front().loss() - 0.5);
  EXPECT_NEAR(metrics.front().loss(), std::log(64), 1.0);
  for (size_t i = 0; i < metrics.size(); ++i) {
    EXPECT_EQ(metrics[i].step(), static_cast<int64_t>(i) + 1);
    EXPECT_EQ(metrics[i].upcycled(), i >= 10);
    EXPECT_EQ(metrics[i].routing_size(), i >= 10 && (i + 1) % 5 == 0 ? 2 : 0);
    EXPECT_GT(metrics[i].gradient_norm(), 0);
    EXPECT_GT(metrics[i].loss_after_first_segment(), 0);
  }
  EXPECT_GT(metrics.back().num_tokens(), 39 * 4 * 32);
  EXPECT_EQ(run.ReadHeartbeats().at(0).step(), 40);
  EXPECT_EQ(*ReadFile(run.tokenizer()), "placeholder");
}

TEST_F(TrainingLoopTest, SameSeedGivesTheSameBits) {
  const v1::RunSpec spec = TinySpec(dataset_, 12);
  const RunDirectory a = Finished(spec), b = Finished(spec);
  EXPECT_EQ(LossLines(a), LossLines(b));
  EXPECT_EQ(NewestWeights(a), NewestWeights(b));
  v1::RunSpec other = spec;
  other.set_seed(7);
  EXPECT_NE(LossLines(Finished(other)), LossLines(a));
}

// Stops before, at and after the end of the dense warm-up, where the loop copies the FFNs into
// experts.
TEST_F(TrainingLoopTest, ResumeIsBitExact) {
  const v1::RunSpec spec = TinySpec(dataset_, 20);
  ASSERT_EQ(DenseSteps(spec), 5);
  const RunDirectory whole = Finished(spec);
  for (int64_t stop_after : {3, 5, 10}) {
    RunDirectory run = NewRun();
    ASSERT_EQ(*TrainAlone(run, spec, stop_after), TrainingOutcome::kInterrupted);
    ASSERT_EQ(run.ReadNewestMetrics()->step(), stop_after);
    ASSERT_EQ(*TrainAlone(run, spec), TrainingOutcome::kComplete);
    EXPECT_EQ(LossLines(run), LossLines(whole)) << stop_after;
    EXPECT_EQ(NewestWeights(run), NewestWeights(whole)) << stop_after;
  }
}

// The learning rate depends on the step alone, so a resume inside the decay continues it.
TEST_F(TrainingLoopTest, ResumeInsideADecayIsBitExact) {
  v1::RunSpec spec = TinySpec(dataset_, 16);
  spec.mutable_optimizer()->set_schedule(v1::WSD);
  spec.mutable_optimizer()->mutable_decay()->set_fraction(0.5);
  spec = *ResolveRunSpec(spec);
  const RunDirectory whole = Finished(spec);
  const auto metrics = Metrics(whole);
  EXPECT_EQ(metrics[7].learning_rate(), metrics[2].learning_rate());
  EXPECT_LT(metrics[15].learning_rate(), 0.4 * metrics[2].learning_rate());
  RunDirectory run = NewRun();
  ASSERT_EQ(*TrainAlone(run, spec, 11), TrainingOutcome::kInterrupted);
  ASSERT_EQ(*TrainAlone(run, spec), TrainingOutcome::kComplete);
  EXPECT_EQ(LossLines(run), LossLines(whole));
  EXPECT_EQ(NewestWeights(run), NewestWeights(whole));
}

// A killed run has metrics of steps after its last checkpoint.
TEST_F(TrainingLoopTest, ResumeReplacesMetricsAfterTheCheckpoint) {
  v1::RunSpec spec = TinySpec(dataset_, 12);
  const RunDirectory whole = Finished(spec);
  RunDirectory run = NewRun();
  ASSERT_TRUE(TrainAlone(run, spec, 6).ok());
  const std::string kept = *ReadFile(run.metrics());
  ASSERT_TRUE(WriteFileAtomically(run.metrics(), kept + "{\"step\":\"7\",\"loss\":9}\n{\"st").ok());
  ASSERT_TRUE(TrainAlone(run, spec).ok());
  EXPECT_EQ(LossLines(run), LossLines(whole));
}

TEST_F(TrainingLoopTest, MicroBatchesAddUpToTheBatch) {
  v1::RunSpec spec = TinySpec(dataset_, 10);
  const auto whole = Metrics(Finished(spec));
  spec.mutable_batch()->set_micro_batch_size(1);
  const auto pieces = Metrics(Finished(spec));
  for (size_t i = 0; i < whole.size(); ++i) {
    EXPECT_NEAR(pieces[i].loss(), whole[i].loss(), 1e-5 * whole[i].loss());
    EXPECT_NEAR(pieces[i].gradient_norm(), whole[i].gradient_norm(), 1e-3);
  }
}

TEST_F(TrainingLoopTest, UpcyclingKeepsTheLoss) {
  const v1::RunSpec spec = TinySpec(dataset_, 40);
  RunDirectory run = NewRun();
  ASSERT_TRUE(TrainAlone(run, spec, DenseSteps(spec)).ok());
  auto dense = RestoreState(CheckpointPath(run.checkpoints(), 10), spec, "k1", 0);
  ASSERT_TRUE(dense.ok()) << dense.status();
  EXPECT_FALSE(dense->upcycled);
  const auto loader = DataLoader::Open(dataset_ / "instances", *ReadDatasetInfo(dataset_));
  const Batch batch = *loader->Load(std::vector<int64_t>{4, 9, 36});
  const auto before = *dense->model->ForwardBackward(batch.inputs, batch.targets, 3, 1, false);
  SingleProcess alone;
  auto moe = UpcycledState(*std::move(dense), spec, alone);
  ASSERT_TRUE(moe.ok()) << moe.status();
  const auto after = *moe->model->ForwardBackward(batch.inputs, batch.targets, 3, 1, false);
  EXPECT_NEAR(after.loss_sum, before.loss_sum, 1e-5 * before.loss_sum);
  EXPECT_TRUE(moe->upcycled);
  EXPECT_EQ(moe->step, 10);
}

// The moments of an expert are those of the dense FFN divided by E and E^2; those of a router are
// 0.
TEST_F(TrainingLoopTest, UpcyclingScalesMoments) {
  const v1::RunSpec spec = TinySpec(dataset_, 40);
  auto dense = *InitialState(spec, 0);
  std::iota(dense.m.begin(), dense.m.end(), 1.0f);
  std::iota(dense.v.begin(), dense.v.end(), 3.0f);
  const std::vector<float> dense_m = dense.m, dense_v = dense.v;
  size_t gate = 0;
  for (const Parameter& p : dense.model->parameters()) {
    if (p.name == "model.layers.1.mlp.gate_proj.weight") {
      gate = p.value.data() - dense.model->values().data();
    }
  }
  SingleProcess alone;
  auto moe = *UpcycledState(std::move(dense), spec, alone);
  int checked = 0;
  for (const Parameter& p : moe.model->parameters()) {
    const size_t at = p.value.data() - moe.model->values().data();
    if (p.name == "model.layers.1.mlp.experts.gate_proj.weight") {
      const size_t size = p.value.size() / 4;
      for (size_t i = 0; i < p.value.size(); i += 7, ++checked) {
        ASSERT_FLOAT_EQ(moe.m[at + i], dense_m[gate + i % size] / 4);
        ASSERT_FLOAT_EQ(moe.v[at + i], dense_v[gate + i % size] / 16);
      }
    }
    if (p.name == "model.layers.1.mlp.router.weight") {
      EXPECT_EQ(moe.m[at], 0);
      EXPECT_EQ(moe.v[at], 0);
      ++checked;
    }
  }
  EXPECT_GT(checked, 100);
}

TEST_F(TrainingLoopTest, DamagedCheckpointIsNamedAndTheOneBeforeUsed) {
  v1::RunSpec spec = TinySpec(dataset_, 20);
  spec.mutable_checkpoint()->set_every_steps(5);
  const RunDirectory whole = Finished(spec);
  RunDirectory run = NewRun();
  ASSERT_TRUE(TrainAlone(run, spec, 15).ok());
  FlipByte(CheckpointPath(run.checkpoints(), 15) / "optimizer.safetensors");
  std::ostringstream warnings;
  ASSERT_TRUE(TrainAlone(run, spec, -1, &warnings).ok());
  EXPECT_THAT(warnings.str(), HasSubstr("step-00000015 is damaged"));
  EXPECT_THAT(warnings.str(), HasSubstr("optimizer.safetensors"));
  EXPECT_EQ(LossLines(run), LossLines(whole));
  EXPECT_EQ(NewestWeights(run), NewestWeights(whole));
}

TEST_F(TrainingLoopTest, FailsWhenNoCheckpointIsGood) {
  v1::RunSpec spec = TinySpec(dataset_, 10);
  RunDirectory run = NewRun();
  ASSERT_TRUE(TrainAlone(run, spec, 4).ok());
  FlipByte(CheckpointPath(run.checkpoints(), 4) / "model.safetensors");
  std::ostringstream warnings;
  const auto outcome = TrainAlone(run, spec, -1, &warnings);
  EXPECT_EQ(outcome.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(outcome.status().message()), HasSubstr("is good (1 damaged)"));
}

TEST_F(TrainingLoopTest, KeepsTheNewestCheckpoints) {
  v1::RunSpec spec = TinySpec(dataset_, 20);
  spec.mutable_checkpoint()->set_every_steps(3);
  spec.mutable_checkpoint()->set_keep_last(3);
  const RunDirectory run = Finished(spec);
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(run.checkpoints())) {
    names.push_back(entry.path().filename());
  }
  EXPECT_THAT(names,
              testing::UnorderedElementsAre("step-00000015", "step-00000018", "step-00000020"));
}

TEST_F(TrainingLoopTest, StopsBeforeWeightsAreTouchedWhenTheLossIsNotFinite) {
  v1::RunSpec spec = TinySpec(dataset_, 10);
  spec.mutable_optimizer()->set_learning_rate(1e38);
  spec.mutable_optimizer()->set_warmup_fraction(0.1);
  spec.mutable_checkpoint()->set_every_steps(1);
  RunDirectory run = NewRun();
  const auto outcome = TrainAlone(run, spec);
  ASSERT_FALSE(outcome.ok());
  const std::string message(outcome.status().message());
  EXPECT_THAT(message, HasSubstr("step 2, rank 0: the loss is not finite on instances "));
  EXPECT_EQ(run.ReadNewestMetrics()->step(), 1);
  EXPECT_EQ(NewestWeights(run).substr(0, 13), "step-00000001");
}

TEST_F(TrainingLoopTest, CompleteRunReportsThatItIsComplete) {
  const v1::RunSpec spec = TinySpec(dataset_, 6);
  RunDirectory run = Finished(spec);
  const std::string lines = LossLines(run);
  SingleProcess alone;
  std::ostringstream out;
  LoopEnvironment environment;
  environment.communicator = &alone;
  environment.now = StepClock();
  environment.out = &out;
  EXPECT_EQ(*TrainingLoop(run, spec, environment).Run(), TrainingOutcome::kComplete);
  EXPECT_THAT(out.str(), HasSubstr("already complete"));
  EXPECT_EQ(LossLines(run), lines);
}

// The validations of the source neither stop a branch nor count as its best.
TEST_F(TrainingLoopTest, ABranchOfARunThatStoppedEarlyTrains) {
  v1::RunSpec spec = TinySpec(dataset_, 100);
  spec.mutable_optimizer()->set_learning_rate(0.3);
  spec.mutable_validation()->mutable_every()->set_steps(2);
  spec.mutable_validation()->set_windows(8);
  spec.mutable_validation()->set_patience(2);
  spec = *ResolveRunSpec(spec);
  const RunDirectory source = Finished(spec), branch = NewRun();
  const int64_t stopped = Metrics(source).back().step();
  ASSERT_LT(stopped, 100);
  spec.set_branch_from(absl::StrCat("run-000001@", stopped));
  ASSERT_OK(CopyBranchCheckpoint(CheckpointPath(source.checkpoints(), stopped), branch));
  ASSERT_EQ(*TrainAlone(branch, spec, 2), TrainingOutcome::kInterrupted);
  EXPECT_EQ(Metrics(branch).back().validation().best_step(), stopped + 2);
}

TEST_F(TrainingLoopTest, RefusesACheckpointOfOtherData) {
  const v1::RunSpec spec = TinySpec(dataset_, 6);
  RunDirectory run = NewRun();
  ASSERT_TRUE(TrainAlone(run, spec, 3).ok());
  const fs::path other = NewDirectory("other");
  WriteTinyDataset(other, {.seed = 5});
  const auto outcome = TrainAlone(run, TinySpec(other, 6));
  EXPECT_EQ(outcome.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(outcome.status().message()), HasSubstr("start a new run"));
}

TEST_F(TrainingLoopTest, RefusesADatasetThatIsNotAsItWasMade) {
  const fs::path older = NewDirectory("older");
  WriteTinyDataset(older, {.seed = 5});
  const v1::RunSpec spec = TinySpec(dataset_, 2);
  const auto copy = [](const fs::path& from, const fs::path& to) {
    fs::copy_file(from, to, fs::copy_options::overwrite_existing);
  };
  const auto expect_refusal = [&](const fs::path& named, const std::function<void()>& change) {
    WriteTinyDataset(dataset_);
    change();
    const absl::Status status = TrainAlone(NewRun(), spec).status();
    EXPECT_FALSE(status.ok()) << named;
    EXPECT_THAT(std::string(status.message()), HasSubstr(named.string()));
  };
  for (const char* file : {"instances.bin", "instances.idx", "heldout/odd.bin", "tokenizer.model",
                           "dataset.json", "manifest.json"}) {
    expect_refusal(dataset_ / file, [&] { fs::resize_file(dataset_ / file, 40); });
    expect_refusal(dataset_ / file, [&] {
      std::string bytes = *ReadFile(dataset_ / file);
      bytes[bytes.size() / 2] ^= 4;
      ASSERT_TRUE(WriteFileAtomically(dataset_ / file, bytes).ok());
    });
  }
  for (const char* file : {"instances.bin", "heldout/odd.bin", "dataset.json"}) {
    expect_refusal(dataset_ / file, [&] { copy(older / file, dataset_ / file); });
  }
  expect_refusal(dataset_, [&] { copy(older / "manifest.json", dataset_ / "manifest.json"); });
  expect_refusal(dataset_ / "instances.bin",
                 [&] { copy(dataset_ / "heldout/odd.bin", dataset_ / "instances.bin"); });
  expect_refusal(dataset_, [&] { fs::remove(dataset_ / "manifest.json"); });
}

TEST_F(TrainingLoopTest, RefusesAnotherWorldSize) {
  v1::RunSpec spec = TinySpec(dataset_, 6);
  spec.set_world_size(2);
  const auto outcome = TrainAlone(NewRun(), spec);
  EXPECT_THAT(std::string(outcome.status().message()), HasSubstr("'mpirun -n 2'"));
}

// The last instance of these datasets has one token.
TEST_F(TrainingLoopTest, ABatchWithoutATokenToPredictHasNoEffect) {
  WriteTinyDataset(dataset_, {.num_instances = 6, .sequence_length = 4});
  v1::RunSpec spec = TinyDenseSpec(dataset_, 12);
  spec.mutable_batch()->set_global_batch_size(1);
  spec.mutable_batch()->set_micro_batch_size(1);
  spec.mutable_checkpoint()->set_every_steps(1);
  spec.mutable_checkpoint()->set_keep_last(12);
  spec.mutable_validation()->mutable_every()->set_steps(1);
  spec.mutable_spikes()->set_threshold(1e6);
  for (const auto policy : {v1::CONTINUE, v1::SKIP_BATCH, v1::ROLLBACK}) {
    spec.mutable_spikes()->set_policy(policy);
    spec = ResolveRunSpec(spec).value();
    const RunDirectory whole = Finished(spec), stopped = NewRun();
    const auto metrics = Metrics(whole);
    ASSERT_EQ(metrics.size(), 12u);
    EXPECT_EQ(std::ranges::count_if(metrics, [](auto& m) { return std::isnan(m.loss()); }), 2);
    const auto weights = [&](int64_t step) {
      const auto model = LoadModel(CheckpointPath(whole.checkpoints(), step)).value();
      return std::vector<float>(model->values().begin(), model->values().end());
    };
    for (size_t i = 1; i < metrics.size(); ++i) {
      const v1::StepMetrics& m = metrics[i];
      const bool empty = std::isnan(m.loss());
      EXPECT_EQ(weights(m.step()) == weights(m.step() - 1), empty) << m.step();
      EXPECT_EQ(m.num_tokens() - metrics[i - 1].num_tokens(), empty ? 0 : 4);
      EXPECT_EQ(m.gradient_norm() == 0, empty);
      EXPECT_EQ(m.tokens_per_second() == 0, empty);
      EXPECT_TRUE(std::isfinite(m.validation().loss()) && !m.has_spike());
      if (!empty || stopped.ReadNewestMetrics().has_value()) continue;
      ASSERT_EQ(*TrainAlone(stopped, spec, m.step() - 1), TrainingOutcome::kInterrupted);
    }
    ASSERT_EQ(*TrainAlone(stopped, spec), TrainingOutcome::kComplete);
    EXPECT_EQ(LossLines(stopped), LossLines(whole));
    EXPECT_EQ(NewestWeights(stopped), NewestWeights(whole));
  }
}

TEST_F(TrainingLoopTest, RanksAgreeThatABatchHasNoTokenToPredict) {
  WriteTinyDataset(dataset_, {.num_instances = 1, .sequence_length = 4});
  v1::RunSpec spec = TinyDenseSpec(dataset_, 3);
  spec.set_world_size(2);
  const RunDirectory run = NewRun();
  ASSERT_OK(TrainOnRanks(run, spec));
  EXPECT_EQ(Metrics(run).back().step(), 3);
  EXPECT_EQ(Metrics(run).back().num_tokens(), 0);
}

TEST_F(TrainingLoopTest, DenseModelTrainsWithoutUpcycling) {
  v1::RunSpec spec = TinySpec(dataset_, 8);
  *spec.mutable_model() = DenseCounterpart(spec.model());
  spec.clear_upcycling();
  spec = *ResolveRunSpec(spec);
  for (const v1::StepMetrics& m : Metrics(Finished(spec))) EXPECT_FALSE(m.upcycled());
}

TEST_F(TrainingLoopTest, ADenseFractionOfZeroTrainsExpertsFromTheStart) {
  v1::RunSpec spec = TinySpec(dataset_, 8);
  spec.mutable_upcycling()->set_dense_fraction(0);
  for (const v1::StepMetrics& m : Metrics(Finished(spec))) EXPECT_TRUE(m.upcycled());
}

}  // namespace training_loop_test
}  // namespace braid
