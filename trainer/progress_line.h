// Lines that report a run's progress in its log.
#ifndef BRAID_TRAINER_PROGRESS_LINE_H_
#define BRAID_TRAINER_PROGRESS_LINE_H_

#include <cstdint>
#include <string>

#include "braid/v1/training.pb.h"
#include "runs/pace.h"

namespace braid {

// Returns a line such as "step 820/2000  loss 3.1416  grad 0.512  lr 1.00e-03  20200 tokens/s
// 41.3 GFLOP/s (58 %)  5:12 left". The share of the measured peak is included where it is known.
std::string ProgressLine(const v1::StepMetrics& metrics, int64_t num_steps, const Pace& pace);

// Returns a line such as "validation after step 200: loss 3.2 over 16 windows (best 3.1 after step
// 100)".
std::string ValidationLine(int64_t step, const v1::ValidationMetrics& validation);

}  // namespace braid

#endif  // BRAID_TRAINER_PROGRESS_LINE_H_
