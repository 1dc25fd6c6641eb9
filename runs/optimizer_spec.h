// The optimizer of a run specification: defaults and checks.
#ifndef BRAID_RUNS_OPTIMIZER_SPEC_H_
#define BRAID_RUNS_OPTIMIZER_SPEC_H_

#include "absl/status/status.h"
#include "braid/v1/training.pb.h"

namespace braid {

// Fills in the defaults of spec->optimizer(), but for the lengths of its schedule. Requires a
// resolved model and finetuning. InvalidArgument names the field, what it got and what it expected.
absl::Status FillOptimizer(v1::RunSpec* spec);

}  // namespace braid

#endif  // BRAID_RUNS_OPTIMIZER_SPEC_H_
