// One line that reports a run's progress in the log.
#ifndef BRAID_TRAINER_PROGRESS_LINE_H_
#define BRAID_TRAINER_PROGRESS_LINE_H_

#include <cstdint>
#include <string>

#include "braid/v1/training.pb.h"

namespace braid {

// 12 left". The share of the measured peak is included where it is known; the remaining time is
// estimated from the duration of this step.
std::string ProgressLine(const v1::StepMetrics& metrics, int64_t num_steps);

}  // namespace braid

#endif  // BRAID_TRAINER_PROGRESS_LINE_H_
