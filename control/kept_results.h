// Results that stay beside the run they are about, where reports find them.
#ifndef BRAID_CONTROL_KEPT_RESULTS_H_
#define BRAID_CONTROL_KEPT_RESULTS_H_

#include "absl/status/status.h"
#include "braid/v1/analysis.pb.h"

namespace braid {

// RUN_DIR/evaluation.json of every run with a standard evaluation in `result`: on the run's own
// data, all of it, routed and without the first segment as in training, and with the standard
// intervals. Directories that cannot be written are left alone.
absl::Status KeepEvaluations(const v1::EvaluateRequest& request,
                             const v1::EvaluationResult& result);

// RUN_DIR/tasks/result.json with the scores of a standard request in `result`: built-in tasks as
// they are, their own number of shots, seed 0, all examples, and answers kept beside the run.
// Scores of the same step that the file holds of other tasks and routings stay.
absl::Status KeepTasks(const v1::EvaluateTasksRequest& request, const v1::TasksResult& result);

}  // namespace braid

#endif  // BRAID_CONTROL_KEPT_RESULTS_H_
