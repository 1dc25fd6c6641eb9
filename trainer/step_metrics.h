// The line of a step for metrics.jsonl: its results, and its cost, which is arithmetic rate, time
// per phase and memory. No computation depends on it.
#ifndef BRAID_TRAINER_STEP_METRICS_H_
#define BRAID_TRAINER_STEP_METRICS_H_

#include <cstdint>

#include "braid/v1/model.pb.h"
#include "braid/v1/training.pb.h"
#include "model/config/model_flops.h"
#include "model/kernels/phase_times.h"
#include "trainer/data_loader.h"
#include "trainer/gradient_pass.h"
#include "trainer/training_state.h"

namespace braid {

// Returns the metrics of the step after `before` that the pass over its batch determines: no
// learning rate, times or routing.
v1::StepMetrics MetricsOfStep(const GradientPass& pass, const TrainingState& before);

// Converts phase times to proto. `other` is the rest of `step_seconds`. A checkpoint is written
// between steps, so its stall is reported by the step after it and is not part of that step's
// step_seconds.
v1::StepTimes StepTimesOf(const PhaseSeconds& spent, double step_seconds);

// Returns the means on which the FLOPs of a pass over `batch` depend. Keys are L / 2 if neither a
// DOCUMENT mask nor supervised examples limit them, and for an empty batch. The share of targets
// refers to the tokens that MeasuredTokens counts: 1 unless the batch is supervised.
DataMeans MeansOf(const Batch& batch, const GradientPass& pass, const v1::ModelConfig& model);

// Returns the tokens of the global batch by which the speed of a step is measured: those that
// `pass` predicted, but all positions of a supervised batch, since all of them pass through the
// layers.
double MeasuredTokens(const v1::RunSpec& spec, const RankBatch& work, const GradientPass& pass);

class StepMeter {
 public:
  // `peak_gflops` is the measured rate of matrix products on one rank, in GFLOP/s; when it is 0
  // (unknown), utilization stays 0.
  StepMeter(int world_size, double peak_gflops)
      : world_size_(world_size), peak_gflops_(peak_gflops) {}

  // Fills in the remaining fields of `metrics`. Requires loss, tokens_per_second and step_seconds.
  // `flops` is the arithmetic of the training that was done. Resets the phase times of this thread.
  void Complete(const ModelFlops& flops, v1::StepMetrics* metrics) const;

 private:
  int world_size_;
  double peak_gflops_;
};

}  // namespace braid

#endif  // BRAID_TRAINER_STEP_METRICS_H_
