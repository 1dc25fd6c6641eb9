// Stores evaluation results in the run directory, where reports find them.
#ifndef BRAID_CONTROL_KEPT_RESULTS_H_
#define BRAID_CONTROL_KEPT_RESULTS_H_

#include "absl/status/status.h"
#include "braid/v1/evaluation.pb.h"

namespace braid {

// Writes RUN_DIR/evaluation.json for every run with a standard evaluation in `result`: on all of
// the run's own data, with segment routing and without the first segment as in training, and with
// the standard intervals; and RUN_DIR/active_experts.json with those of several numbers of active
// experts. Directories that cannot be written are skipped.
absl::Status KeepEvaluations(const v1::EvaluateRequest& request,
                             const v1::EvaluationResult& result);

// Writes RUN_DIR/tasks/result.json with the scores of a standard request in `result`: built-in
// tasks without changes, their own number of shots (none for a label head), the number of active
// experts that the run ends with, no routing seed, no noise, seed 0, all examples, and answers
// stored in the run directory.
// Scores of other tasks and routings at the same step are kept, also those that another thread or
// process stores at the same time.
absl::Status KeepTasks(const v1::EvaluateTasksRequest& request, const v1::TasksResult& result);

}  // namespace braid

#endif  // BRAID_CONTROL_KEPT_RESULTS_H_
