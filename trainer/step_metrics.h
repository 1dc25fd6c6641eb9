// What a step cost, for metrics.jsonl: the rate of arithmetic, where the time
// went, memory. Reads clocks and counters only; nothing that is computed depends
// on it.
#ifndef BRAID_TRAINER_STEP_METRICS_H_
#define BRAID_TRAINER_STEP_METRICS_H_

#include <cstdint>

#include "braid/v1/model.pb.h"
#include "braid/v1/training.pb.h"
#include "model/kernels/phase_times.h"

namespace braid {

// `other` is what is left of `step_seconds`. A checkpoint is written between
// steps: its stall is told by the step after it and is no part of its
// step_seconds.
v1::StepTimes StepTimesOf(const PhaseSeconds& spent, double step_seconds);

class StepMeter {
 public:
  // `peak_gflops` of matrix products on one rank, in 1e9 FLOP/s; 0: unknown, and
  // utilisation stays 0.
  StepMeter(int world_size, double peak_gflops)
      : world_size_(world_size), peak_gflops_(peak_gflops) {}

  // Requires loss, tokens_per_second and step_seconds; adds the rest. `model` is
  // the one that was trained. Takes the phases since the last call.
  void Complete(const v1::ModelConfig& model, v1::StepMetrics* metrics) const;

 private:
  int world_size_;
  double peak_gflops_;
};

}  // namespace braid

#endif  // BRAID_TRAINER_STEP_METRICS_H_
