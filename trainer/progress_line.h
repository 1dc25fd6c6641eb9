// One line about a run's progress, for people and logs.
#ifndef BRAID_TRAINER_PROGRESS_LINE_H_
#define BRAID_TRAINER_PROGRESS_LINE_H_

#include <cstdint>
#include <string>

#include "braid/v1/training.pb.h"

namespace braid {

// "step 120/480  loss 4.812  grad 0.82  lr 5.1e-03  12034 tokens/s  85.1 GFLOP/s (64 %)
// 1:12 left", with the share of the measured peak where it is known.
// The time left is at the rate of this step.
std::string ProgressLine(const v1::StepMetrics& metrics, int64_t num_steps);

}  // namespace braid

#endif  // BRAID_TRAINER_PROGRESS_LINE_H_
