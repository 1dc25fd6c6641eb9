// Measures the cost of checkpoints: trains on random tokens in a temporary directory, with a
// checkpoint every few steps.
//
//   braid-bench-checkpoint model.preset=tiny/8E num_steps=150 checkpoint.every_steps=50
//
// Arguments set fields of a RunSpec. Prints one JSON line: seconds per step, seconds for which one
// checkpoint blocks the loop, and their share of the total time.
#include <filesystem>
#include <iostream>
#include <sstream>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/blas_core.h"
#include "base/status_macros.h"
#include "model/config/model_config.h"
#include "proto/config_text.h"
#include "runs/checkpoint_directory.h"
#include "runs/run_spec.h"
#include "tests/trainer/tiny_run.h"

namespace braid {
namespace {

namespace fs = std::filesystem;

absl::StatusOr<v1::RunSpec> ParseSpec(int argc, char** argv, const fs::path& dataset) {
  v1::RunSpec spec;
  spec.mutable_upcycling()->set_dense_fraction(0);
  spec.mutable_checkpoint()->set_every_steps(50);
  spec.set_dataset_dir(dataset.string());
  for (int i = 1; i < argc; ++i) RETURN_IF_ERROR(SetField(&spec, argv[i]));
  ASSIGN_OR_RETURN(const v1::ModelConfig model, ResolveModelConfig(spec.model()));
  WriteTinyDataset(dataset, {.num_instances = 64,
                             .sequence_length = model.sequence_length(),
                             .vocab_size = model.vocab_size()});
  return ResolveRunSpec(spec);
}

// The cost of the checkpoints during the run, without the last one, which the run waits for.
struct Cost {
  double step_seconds = 0;   // all steps
  double stall_seconds = 0;  // all checkpoints
  int64_t num_checkpoints = 0;
};

Cost CostOf(const std::vector<v1::StepMetrics>& metrics, const v1::RunSpec& spec) {
  Cost cost;
  for (const v1::StepMetrics& m : metrics) {
    cost.step_seconds += m.step_seconds();
    cost.stall_seconds += m.times().checkpoint();
  }
  cost.num_checkpoints = (spec.num_steps() - 1) / spec.checkpoint().every_steps();
  return cost;
}

int64_t SizeOf(const fs::path& directory) {
  int64_t bytes = 0;
  for (const auto& entry : fs::directory_iterator(directory)) {
    bytes += static_cast<int64_t>(entry.file_size());
  }
  return bytes;
}

absl::Status Measure(int argc, char** argv) {
  const fs::path dataset = NewDirectory("data");
  ASSIGN_OR_RETURN(const v1::RunSpec spec, ParseSpec(argc, argv, dataset));
  const RunDirectory run(NewDirectory("run"));
  SetModelThreads(spec.threads_per_rank());
  SingleProcess alone;
  std::ostringstream out;
  LoopEnvironment environment;
  environment.communicator = &alone;
  environment.now = [] {
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    return std::chrono::duration<double>(now).count();
  };
  environment.out = &out;
  RETURN_IF_ERROR(TrainingLoop(run, spec, environment).Run().status());
  ASSIGN_OR_RETURN(const auto metrics, run.ReadMetrics(0));
  const Cost cost = CostOf(metrics, spec);
  const auto steps = static_cast<double>(metrics.size());
  std::cout
      << absl::StrFormat(
             R"({"blas": "%s", "steps": %d, "step_seconds": %.4f, "checkpoints": %d, )"
             R"("checkpoint_mb": %.1f, "stall_seconds": %.4f, "stall_share": %.5f})",
             BlasCoreName(), metrics.size(), cost.step_seconds / steps, cost.num_checkpoints,
             static_cast<double>(SizeOf(CheckpointPath(run.checkpoints(), spec.num_steps()))) / 1e6,
             cost.stall_seconds / static_cast<double>(cost.num_checkpoints),
             cost.stall_seconds / (cost.step_seconds + cost.stall_seconds))
      << std::endl;
  return absl::OkStatus();
}

}  // namespace
}  // namespace braid

int main(int argc, char** argv) {
  braid::ReexecForBlas(argv);
  const absl::Status status = braid::Measure(argc, argv);
  if (status.ok()) return 0;
  std::cerr << "braid-bench-checkpoint: " << status.message() << std::endl;
  return 1;
}
