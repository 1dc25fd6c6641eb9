// The batch of a run specification that grows: checks, and its schedule.
#ifndef BRAID_RUNS_BATCH_SPEC_H_
#define BRAID_RUNS_BATCH_SPEC_H_

#include <cstdint>

#include "absl/status/status.h"
#include "braid/v1/training.pb.h"
#include "runs/batch_schedule.h"
#include "runs/training_length.h"

namespace braid {

// Checks batch.first_batch_size, and converts batch.warmup to steps or a share. Requires world_size
// and the other fields of the batch. InvalidArgument names the field.
absl::Status FillBatchGrowth(const StepSize& size, v1::RunSpec* spec);

// Returns the schedule of a spec with num_steps and a batch as FillBatchGrowth leaves it.
BatchSchedule BatchScheduleOf(const v1::RunSpec& spec);

// Returns the fewest steps in which a run with this batch reads `sequences` sequences, whatever its
// num_steps; 2^32 + 1 when 2^32 steps do not suffice.
int64_t StepsToRead(const v1::RunSpec& spec, double sequences);

// Returns InvalidArgument when the batch grows for longer than the run. Requires num_steps.
absl::Status CheckGrowthFits(const v1::RunSpec& spec);

}  // namespace braid

#endif  // BRAID_RUNS_BATCH_SPEC_H_
