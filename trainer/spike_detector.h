// Detection of loss spikes: steps whose loss or gradient norm is far above those of the steps
// before. Pure functions of values that are the same on every rank, so every rank decides alike,
// and a repeated step decides again as it did.
#ifndef BRAID_TRAINER_SPIKE_DETECTOR_H_
#define BRAID_TRAINER_SPIKE_DETECTOR_H_

#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "braid/v1/training.pb.h"
#include "runs/checkpoint.h"

namespace braid {

// Returns how far `value` lies above the median of `history`, in units of 1.4826 times the median
// absolute deviation, which estimates the standard deviation of normal values and ignores up to
// half of outliers (Hampel, "The Influence Curve and its Role in Robust Estimation", 1974). The
// unit is at least 0.001, so that a constant history does not make every change a spike. Infinity
// when `value` is not finite. Requires a history that is not empty.
double RobustZScore(std::span<const double> history, double value);

// The z-scores of a step (RobustZScore) and whether it is a spike.
struct SpikeVerdict {
  bool is_spike = false;
  double loss_z = 0;
  double gradient_norm_z = 0;
};

// Judges a step. While the history has fewer than a quarter of config.window() steps, only values
// that are not finite are a spike. A step without tokens has no loss and is never a spike.
SpikeVerdict JudgeStep(const v1::SpikeConfig& config, const SpikeHistory& history, double loss,
                       double gradient_norm, int64_t num_tokens = 1);

// Returns the record of a spike in the step of `metrics`; the skipped steps are left unset.
v1::LossSpike SpikeOf(const SpikeVerdict& verdict, const v1::StepMetrics& metrics,
                      const v1::SpikeConfig& config);

// Adds a step that was kept to the history, and drops the oldest beyond the window.
void RememberStep(const v1::SpikeConfig& config, double loss, double gradient_norm,
                  SpikeHistory* history);

// Counts a spike that is not trained on. Internal, with advice, when too many follow each other:
// the model has diverged, or the data has changed, and skipping does not help.
absl::Status CountSpike(const v1::LossSpike& spike, SpikeHistory* history);
inline constexpr int32_t kMaxConsecutiveSpikes = 10;

}  // namespace braid

#endif  // BRAID_TRAINER_SPIKE_DETECTOR_H_
