// Answers an EvaluateTasksRequest with a model from disk.
#ifndef BRAID_EVALUATION_EVALUATE_TASKS_H_
#define BRAID_EVALUATION_EVALUATE_TASKS_H_

#include <functional>

#include "absl/status/status.h"
#include "braid/v1/analysis.pb.h"

namespace braid {

// `request.model` is a run or checkpoint directory. Built-in tasks without files, or with malformed
// ones, are skipped unless they are named. One task is in memory at a time. The last event carries
// the result. NotFound for files of a named task, or when there are files of no task;
// InvalidArgument for a field out of range, a malformed specification or file of a named task, and
// two tasks of one name; Internal for a model whose scores are not finite.
absl::Status EvaluateTasks(const v1::EvaluateTasksRequest& request,
                           const std::function<void(const v1::EvaluateTasksEvent&)>& emit);

}  // namespace braid

#endif  // BRAID_EVALUATION_EVALUATE_TASKS_H_
