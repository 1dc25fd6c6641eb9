// Measures the step time of data-parallel training on random tokens, alone or under mpirun.
//
//   braid-bench-ranks 10 model.preset=small batch.global_batch_size=4
//   mpirun -n 2 --bind-to none braid-bench-ranks 10 model.preset=small threads_per_rank=1
//
// The first argument is the number of timed steps, after two warm-up steps; the others set fields
// of a RunSpec. Rank 0 prints one JSON line: the fastest step, which other programs affect least,
// with the time of its parts ("communication" is the time that the step waits, without
// communication that is overlapped with backward), the lowest processor time of all ranks for a
// step, and the median step.
#include <algorithm>
#include <charconv>
#include <chrono>
#include <ctime>
#include <iostream>
#include <string_view>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/blas_core.h"
#include "base/splitmix.h"
#include "base/status_macros.h"
#include "model/config/model_config.h"
#include "model/kernels/phase_times.h"
#include "proto/config_text.h"
#include "runs/instance_schedule.h"
#include "trainer/gradient_pass.h"
#include "trainer/parallel/mpi_communicator.h"
#include "trainer/training_state.h"
#include "trainer/weight_update.h"

namespace braid {
namespace {

constexpr int kWarmUpSteps = 2;

absl::StatusOr<v1::RunSpec> ParseSpec(int argc, char** argv, int world_size) {
  v1::RunSpec spec;
  spec.mutable_batch()->set_global_batch_size(world_size);
  spec.mutable_batch()->set_micro_batch_size(1);
  spec.set_optimizer_sharding(v1::ZERO_1);
  spec.mutable_reduction()->set_bucket_bytes(25 << 20);
  spec.set_threads_per_rank(1);
  spec.mutable_optimizer()->set_learning_rate(1e-4);
  spec.mutable_optimizer()->set_beta1(0.9);
  spec.mutable_optimizer()->set_beta2(0.95);
  spec.mutable_optimizer()->set_epsilon(1e-8);
  spec.mutable_upcycling()->set_dense_fraction(0);
  for (int i = 2; i < argc; ++i) RETURN_IF_ERROR(SetField(&spec, argv[i]));
  ASSIGN_OR_RETURN(*spec.mutable_model(), ResolveModelConfig(spec.model()));
  spec.set_world_size(world_size);
  return spec;
}

RankBatch RandomWork(const v1::RunSpec& spec, int64_t step, int rank) {
  const SlotRange slots = RankSlots(spec.batch().global_batch_size(), rank, spec.world_size());
  const int64_t length = spec.model().sequence_length();
  std::vector<std::vector<int32_t>> sequences;
  RankBatch work;
  work.step = step;
  for (int64_t slot = slots.begin; slot < slots.end; ++slot) {
    std::vector<int32_t> tokens;
    for (int64_t t = 0; t <= length; ++t) {
      const uint64_t bits = Mix64(Mix64(step, slot), t);
      tokens.push_back(static_cast<int32_t>(bits % spec.model().vocab_size()));
    }
    sequences.push_back(std::move(tokens));
    work.instances.push_back(slot);
  }
  work.batch = MakeBatch(sequences, length, 0);
  work.micro_batch_size = spec.batch().micro_batch_size();
  return work;
}

absl::Status Step(const v1::RunSpec& spec, GradientReducer& reducer, TrainingState& state,
                  Communicator& ranks) {
  const RankBatch work = RandomWork(spec, state.step, ranks.rank());
  ASSIGN_OR_RETURN(const GradientPass pass,
                   ComputeGradients(work, false, *state.model, reducer, ranks));
  return UpdateWeights(spec.optimizer(), spec.optimizer().learning_rate(), pass.gradient_norm,
                       state, ranks);
}

struct StepTime {
  double seconds = 0;
  double cpu_seconds = 0;  // for all threads of all ranks
  PhaseSeconds phases = {};
};

// Sorted by time.
absl::StatusOr<std::vector<StepTime>> TimeSteps(const v1::RunSpec& spec, int num_steps,
                                                TrainingState& state, Communicator& ranks) {
  ASSIGN_OR_RETURN(auto reducer,
                   GradientReducer::Create(spec.optimizer_sharding(), spec.reduction(), ranks));
  std::vector<StepTime> times;
  for (int i = 0; i < kWarmUpSteps + num_steps; ++i) {
    RETURN_IF_ERROR(ranks.Barrier());
    TakePhaseSeconds();
    const std::clock_t cpu_start = std::clock();
    const auto start = std::chrono::steady_clock::now();
    RETURN_IF_ERROR(Step(spec, *reducer, state, ranks));
    RETURN_IF_ERROR(ranks.Barrier());
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
    double cpu_seconds = static_cast<double>(std::clock() - cpu_start) / CLOCKS_PER_SEC;
    RETURN_IF_ERROR(ranks.AllReduceSum(std::span<double>(&cpu_seconds, 1)));
    if (i >= kWarmUpSteps) times.push_back({spent.count(), cpu_seconds, TakePhaseSeconds()});
  }
  std::ranges::sort(times, {}, &StepTime::seconds);
  return times;
}

void Print(const v1::RunSpec& spec, const std::vector<StepTime>& times,
           const TrainingState& state) {
  const StepTime& fastest = times.front();
  const StepTime& least = *std::ranges::min_element(times, {}, &StepTime::cpu_seconds);
  const double tokens = static_cast<double>(spec.batch().global_batch_size()) *
                        static_cast<double>(spec.model().sequence_length());
  const auto phase = [&](Phase p) { return fastest.phases[static_cast<size_t>(p)]; };
  std::cout
      << absl::StrFormat(
             R"({"blas": "%s", "ranks": %d, "threads": %d, "sharding": "%s", "after_backward": %s, )"
             R"("parameters": %d, "moment_bytes": %d, "step_seconds": %.4f, )"
             R"("communication": %.4f, "optimizer": %.4f, "tokens_per_second": %.0f, )"
             R"("cpu_seconds": %.4f, "median_step_seconds": %.4f})",
             BlasCoreName(), spec.world_size(), spec.threads_per_rank(),
             v1::OptimizerSharding_Name(spec.optimizer_sharding()),
             spec.reduction().after_backward() ? "true" : "false", state.model->values().size(),
             (state.m.size() + state.v.size()) * sizeof(float), fastest.seconds,
             phase(Phase::kCommunication), phase(Phase::kOptimizer), tokens / fastest.seconds,
             least.cpu_seconds, times[times.size() / 2].seconds)
      << std::endl;
}

absl::Status Run(int argc, char** argv, Communicator& ranks) {
  int num_steps = 0;
  const std::string_view count = argc > 1 ? argv[1] : "";
  std::from_chars(count.begin(), count.end(), num_steps);
  if (num_steps < 1) {
    return absl::InvalidArgumentError("usage: braid-bench-ranks STEPS [FIELD=VALUE...]");
  }
  ASSIGN_OR_RETURN(const v1::RunSpec spec, ParseSpec(argc, argv, ranks.world_size()));
  SetModelThreads(spec.threads_per_rank());
  ASSIGN_OR_RETURN(TrainingState state, InitialState(spec, ranks.rank()));
  ASSIGN_OR_RETURN(const std::vector<StepTime> times, TimeSteps(spec, num_steps, state, ranks));
  if (ranks.rank() == 0) Print(spec, times, state);
  return absl::OkStatus();
}

}  // namespace
}  // namespace braid

int main(int argc, char** argv) {
  braid::ReexecForBlas(argv);
  const auto ranks = braid::JoinRanks();
  const absl::Status status = ranks.ok() ? braid::Run(argc, argv, **ranks) : ranks.status();
  if (status.ok()) return 0;
  std::cerr << "braid-bench-ranks: " << status.message() << std::endl;
  if (ranks.ok()) (*ranks)->Abort(1);
  return 1;
}
