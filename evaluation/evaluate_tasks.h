// Evaluates a model from disk on downstream tasks.
#ifndef BRAID_EVALUATION_EVALUATE_TASKS_H_
#define BRAID_EVALUATION_EVALUATE_TASKS_H_

#include <functional>

#include "absl/status/status.h"
#include "braid/v1/evaluation.pb.h"

namespace braid {

// Handles the request; `request.model` and further_models are run or checkpoint directories, which
// are loaded one after the other and compared by their stored answers. Built-in tasks whose files
// are missing or malformed, or which the model cannot answer (CheckAnswerable), are skipped unless
// they are named. Examples on which a model of the request was fine-tuned are left out for all of
// them. One task is in memory at a time. The
// last event carries the result. NotFound when the files of a named task, or of all tasks, are
// missing; InvalidArgument for a field out of range, a malformed specification or file of a named
// task, one that the model cannot answer, and two tasks with the same name; Internal for a model
// whose scores are not finite.
absl::Status EvaluateTasks(const v1::EvaluateTasksRequest& request,
                           const std::function<void(const v1::EvaluateTasksEvent&)>& emit);

}  // namespace braid

#endif  // BRAID_EVALUATION_EVALUATE_TASKS_H_
