// Growth of the number of experts that a token uses, as a pure function of the step.
#ifndef BRAID_RUNS_EXPERT_GROWTH_H_
#define BRAID_RUNS_EXPERT_GROWTH_H_

#include <cstdint>
#include <map>

#include "absl/status/status.h"
#include "braid/v1/model.pb.h"
#include "braid/v1/training.pb.h"

namespace braid {

// Returns whether the number of active experts is to change: whether a setting is given, other than
// 0 for `first`.
bool Grows(const v1::GrowthConfig& growth);

// Fills in the settings of a growth, and sets the routing's own number of active experts to the
// last one, which a finished run uses. Requires Grows. InvalidArgument for another router than
// TOKEN_CHOICE, or for limits that shrink or are not numbers of experts. With `may_outlast`, as in
// a branch that ends before its source, the growth may be longer than the run (`until` above 1).
absl::Status ResolveGrowth(v1::RoutingConfig* routing, v1::GrowthConfig* growth,
                           bool may_outlast = false);

// Growth of the number of active experts from `first` to `last` over `steps` steps.
struct ExpertGrowth {
  int first = 0;
  int last = 0;
  int64_t steps = 0;
};

// Returns the growth of resolved settings in a run of `num_steps` steps.
ExpertGrowth GrowthOf(const v1::GrowthConfig& resolved, int64_t num_steps);

// Returns the number of active experts of 0-based step t: first plus (last - first) t / steps
// rounded to the nearest number, halves to even ones, and at most `last`.
int ActiveExperts(const ExpertGrowth& growth, int64_t step);

// Returns how many of the steps of a run have each number of active experts, without numbers that
// no step has.
std::map<int, int64_t> StepsByActiveExperts(const ExpertGrowth& growth, int64_t num_steps);

}  // namespace braid

#endif  // BRAID_RUNS_EXPERT_GROWTH_H_
