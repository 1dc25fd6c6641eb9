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

// Fills in the validation settings: the interval as steps or a share, or as tokens where the batch
// grows, and the number of windows as one per 100 sequences that the run trains on between two
// validations, at least one per domain.
// Scoring a window costs less than training on a sequence of the same length, so validation takes
// at most 1 % of the time unless the interval is too short for one window per domain, or per rank
// (CostOfValidation). `datasets` are those of the run. Requires num_steps and the batch.
// InvalidArgument for a field out of range; FailedPrecondition, which names all datasets, when none
// has a held-out split.
absl::Status FillValidation(const StepSize& size, std::span<const DatasetInfo> datasets,
                            v1::RunSpec* spec);

inline constexpr double kMaxValidationShare = 0.01;

// The time of validation by the arithmetic of the model: a function of the settings alone.
struct ValidationCost {
  double share = 0;  // part of the time of the run
  // The shortest interval with at most kMaxValidationShare; 0 if one validation takes more.
  int64_t affordable_steps = 0;
};

// Returns the cost of `windows` windows at the interval of a resolved spec. The rank with the most
// windows counts, since the others wait for it. Requires validation.every.
ValidationCost CostOfValidation(const v1::RunSpec& resolved, int64_t windows);

// Returns the cost as a line for the log of a run, such as "validation: 20 windows every 500 steps,
// about 0.33 % of the time". Above kMaxValidationShare the line names the affordable interval. It
// names the datasets in `without_split`, those of a mixture that have no held-out split.
std::string ValidationCostText(const v1::RunSpec& resolved, int64_t windows,
                               std::span<const std::string> without_split = {});

// Returns true if a run with this resolved spec is validated after `step` steps: at every multiple
// of the interval, and at the end. An interval in tokens is complete with the step that reaches it.
bool ValidationIsDue(const v1::RunSpec& resolved, int64_t step);

}  // namespace braid

#endif  // BRAID_RUNS_VALIDATION_SPEC_H_
