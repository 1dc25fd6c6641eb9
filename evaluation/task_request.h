// What a request to evaluate tasks asks for: models, tasks, routings, numbers of experts and
// demonstrations.
#ifndef BRAID_EVALUATION_TASK_REQUEST_H_
#define BRAID_EVALUATION_TASK_REQUEST_H_

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "braid/v1/evaluation.pb.h"
#include "runs/model_path.h"

namespace braid {

// Returns InvalidArgument for a field out of range, and for further models that cannot be compared;
// NotFound when the directory data_dir does not exist.
absl::Status CheckTasksRequest(const v1::EvaluateTasksRequest& request);

// Returns the tasks to load, one at a time: those requested by name, whose files must exist, or the
// built-in ones whose files do; `result` records the others as skipped. NotFound when the files of
// a named task, or of all tasks, are missing; InvalidArgument for a malformed specification and two
// tasks with the same name.
absl::StatusOr<std::vector<v1::TaskSpec>> TasksToAsk(const v1::EvaluateTasksRequest& request,
                                                     v1::TasksResult* result);

// One of the models of a request, and where its answers are.
struct TaskModel {
  std::string name;  // as requested
  ModelPath path;
  std::filesystem::path answers_dir;
  std::string identity;
  std::optional<uint64_t> routing_seed;  // the request's, if the model's gate takes one
};

// Returns the model and the further models, all of which exist, and creates their directories of
// answers. A routing seed and numbers of active experts must have a meaning for one of them.
absl::StatusOr<std::vector<TaskModel>> FindTaskModels(const v1::EvaluateTasksRequest& request);

// Returns the routings to ask a model with.
absl::StatusOr<std::vector<v1::InferenceRouting>> RoutingsToAsk(
    const v1::EvaluateTasksRequest& request, const v1::ModelConfig& model);

// Returns the numbers of active experts to ask a model with: those requested, otherwise its own; 0
// for a model whose tokens do not choose experts. InvalidArgument names the model.
absl::StatusOr<std::vector<int>> ActiveExpertsToAsk(const v1::EvaluateTasksRequest& request,
                                                    const TaskModel& model);

// Returns the number of demonstrations; -1 for that of the task. A label head is asked without.
int ShotsToAsk(const v1::EvaluateTasksRequest& request, const v1::ModelConfig& model);

}  // namespace braid

#endif  // BRAID_EVALUATION_TASK_REQUEST_H_
