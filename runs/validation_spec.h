// Resolution of the validation settings of a run.
#ifndef BRAID_RUNS_VALIDATION_SPEC_H_
#define BRAID_RUNS_VALIDATION_SPEC_H_

#include <cstdint>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "braid/v1/training.pb.h"
#include "formats/packed_dataset.h"
#include "runs/training_length.h"

namespace braid {

// Fills in the validation settings: the interval as steps or a share, and the number of windows as
// one per 100 training sequences between two validations, at least one per domain. Scoring a window
// costs less than training on a sequence of the same length, so validation takes at most 1 % of the
// time. `datasets` are those of the run. Requires num_steps. InvalidArgument for a field out of
// range; FailedPrecondition when no dataset has a held-out split.
absl::Status FillValidation(const StepSize& size, std::span<const DatasetInfo> datasets,
                            v1::RunSpec* spec);

// Returns the steps between validations of a resolved spec; 0 for none.
int64_t ValidationSteps(const v1::RunSpec& resolved);

}  // namespace braid

#endif  // BRAID_RUNS_VALIDATION_SPEC_H_
