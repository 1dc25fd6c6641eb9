#include "tests/bench/course_bars.h"

#include <ctime>
#include <filesystem>
#include <iterator>
#include <memory>
#include <sstream>
#include <vector>

#include "base/clock.h"
#include "runs/metrics_log.h"
#include "runs/run_spec.h"
#include "runs/validation_spec.h"
#include "tests/bench/or_exit.h"
#include "tests/bench/trainee.h"
#include "tests/trainer/tiny_run.h"
#include "trainer/gradient_pass.h"
#include "trainer/step_metrics.h"
#include "trainer/training_data.h"
#include "trainer/training_loop.h"

namespace braid {
namespace {

constexpr int64_t kInstances = 3000;

v1::RunSpec SpecOf(const std::filesystem::path& dataset, int num_layers, int num_experts,
                   int64_t num_steps) {
  v1::RunSpec spec;
  spec.set_dataset_dir(dataset.string());
  v1::ModelConfig* const model = spec.mutable_model();
  model->set_num_layers(num_layers);
  model->set_d_model(128);
  model->set_num_heads(4);
  model->set_d_ff(256);
  if (num_experts > 1) {
    model->mutable_routing()->set_num_experts(num_experts);
    model->mutable_routing()->set_segment_length(64);
    spec.mutable_upcycling()->set_dense_fraction(0);
  }
  spec.mutable_batch()->set_global_batch_size(8);
  spec.set_num_steps(num_steps);
  spec.set_threads_per_rank(1);
  return spec;
}

std::filesystem::path NewDataset(const TinyData& data) {
  const std::filesystem::path dataset = NewDirectory("data");
  WriteTinyDataset(dataset, data);
  return dataset;
}

// A run without checkpoints whose steps are called one by one.
class DataTrainee {
 public:
  explicit DataTrainee(const v1::RunSpec& resolved)
      : spec_(resolved),
        data_(OrExit(TrainingData::Open(spec_, /*verify=*/false))),
        state_(OrExit(InitialState(spec_, /*rank=*/0))),
        reducer_(
            OrExit(GradientReducer::Create(spec_.optimizer_sharding(), spec_.reduction(), alone_))),
        log_(OrExit(MetricsLog::Open(NewDirectory("run") / "metrics.jsonl", 0))) {}

  void Step() {
    const std::clock_t processor = std::clock();
    wall_seconds_.push_back(SecondsOf([this] { Train(); }));
    processor_seconds_.push_back(static_cast<double>(std::clock() - processor) / CLOCKS_PER_SEC);
  }

  // Forgets the steps so far.
  void EndWarmUp() {
    wall_seconds_.clear();
    processor_seconds_.clear();
  }

  double wall_seconds() const { return Median(wall_seconds_); }
  double processor_seconds() const { return Median(processor_seconds_); }

 private:
  void Train() {
    RankBatch work = OrExit(data_.Load(state_.step, /*rank=*/0, /*world_size=*/1));
    work.seed = spec_.seed();
    work.micro_batch_size = spec_.batch().micro_batch_size();
    const GradientPass pass =
        OrExit(ComputeGradients(work, /*measure_routing=*/false, *state_.model, *reducer_, alone_));
    v1::StepMetrics metrics = MetricsOfStep(pass, state_);
    const auto datasets = data_.LossesOf(work.step, pass.datasets);
    metrics.mutable_datasets()->Assign(datasets.begin(), datasets.end());
    OrExit(UpdateWeights(spec_.optimizer(), spec_.optimizer().learning_rate(), pass.gradient_norm,
                         state_, alone_));
    OrExit(log_->Append(metrics));
  }

  const v1::RunSpec spec_;
  SingleProcess alone_;
  TrainingData data_;
  TrainingState state_;
  std::unique_ptr<GradientReducer> reducer_;
  std::unique_ptr<MetricsLog> log_;
  std::vector<double> wall_seconds_, processor_seconds_;
};

}  // namespace

MixtureFigures MeasureMixture(int rounds) {
  constexpr int kWarmUpRounds = 3;
  constexpr double kShares[] = {0.5, 0.3, 0.2};
  v1::RunSpec mixture;
  for (uint64_t d = 0; d < std::size(kShares); ++d) {
    const std::filesystem::path dataset = NewDataset(
        {.num_instances = kInstances, .sequence_length = 256, .vocab_size = 512, .seed = d + 1});
    if (d == 0) mixture = SpecOf(dataset, 4, 1, 10000);
    v1::MixtureDataset* const entry = mixture.add_datasets();
    entry->set_dataset(dataset.string());
    entry->set_share(kShares[d]);
  }
  v1::RunSpec single = mixture;
  single.clear_datasets();
  SetModelThreads(1);
  DataTrainee one(OrExit(ResolveRunSpec(single))), mixed(OrExit(ResolveRunSpec(mixture)));
  for (int round = 0; round < kWarmUpRounds + rounds; ++round) {
    if (round == kWarmUpRounds) {
      one.EndWarmUp();
      mixed.EndWarmUp();
    }
    const bool one_first = round % 2 == 0;
    (one_first ? one : mixed).Step();
    (one_first ? mixed : one).Step();
  }
  return {.processor_ratio = mixed.processor_seconds() / one.processor_seconds(),
          .wall_ratio = mixed.wall_seconds() / one.wall_seconds(),
          .step_seconds = one.wall_seconds()};
}

ValidationFigures MeasureValidation(int64_t num_steps, int64_t every) {
  const std::filesystem::path dataset = NewDataset({.num_instances = kInstances,
                                                    .sequence_length = 256,
                                                    .vocab_size = 512,
                                                    .num_even = 60,
                                                    .num_odd = 40});
  v1::RunSpec asked = SpecOf(dataset, 2, 4, num_steps);
  asked.mutable_validation()->mutable_every()->set_steps(every);
  const v1::RunSpec spec = OrExit(ResolveRunSpec(asked));
  const RunDirectory run(NewDirectory("run"));
  SetModelThreads(1);
  SingleProcess alone;
  std::ostringstream out;
  LoopEnvironment environment;
  environment.communicator = &alone;
  environment.now = SteadySeconds;
  environment.out = &out;
  OrExit(TrainingLoop(run, spec, environment).Run().status());
  double steps = 0, validations = 0, stalls = 0;
  ValidationFigures figures;
  for (const v1::StepMetrics& m : OrExit(run.ReadMetrics(0))) {
    steps += m.step_seconds();
    stalls += m.times().checkpoint();
    if (!m.has_validation()) continue;
    validations += m.validation().seconds();
    figures.windows = m.validation().num_windows();
  }
  figures.share = validations / (steps + validations);
  figures.checkpoint_share = stalls / (steps + validations + stalls);
  figures.forecast = CostOfValidation(spec, figures.windows).share;
  return figures;
}

}  // namespace braid
