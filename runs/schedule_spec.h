// Resolution of the settings that say how long a run is and how its learning rate changes.
#ifndef BRAID_RUNS_SCHEDULE_SPEC_H_
#define BRAID_RUNS_SCHEDULE_SPEC_H_

#include <cstdint>

#include "absl/status/status.h"
#include "braid/v1/training.pb.h"
#include "runs/training_length.h"

namespace braid {

// Replaces `length` by num_steps. InvalidArgument when both are set, or for a share.
absl::Status FillRunLength(const StepSize& size, v1::RunSpec* spec);

// Fills in the schedule of the learning rate and converts its lengths to steps or shares. Requires
// num_steps and the other optimizer settings. InvalidArgument when warm-up and decay are longer
// than the run, or when a decay is given for a schedule other than WSD.
absl::Status FillSchedule(const StepSize& size, v1::RunSpec* spec);

// Returns the steps of linear warm-up, and of the decay at the end of a WSD schedule (0 for other
// schedules). Require a resolved spec.
int64_t WarmupSteps(const v1::RunSpec& resolved);
int64_t DecaySteps(const v1::RunSpec& resolved);

}  // namespace braid

#endif  // BRAID_RUNS_SCHEDULE_SPEC_H_
