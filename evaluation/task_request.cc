#include "evaluation/task_request.h"

#include <algorithm>
#include <limits>
#include <set>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/atomic_file.h"
#include "base/status_macros.h"
#include "evaluation/inference_routings.h"
#include "evaluation/requested_experts.h"
#include "evaluation/tasks/task_examples.h"
#include "evaluation/tasks/task_spec.h"
#include "model/config/inference_experts.h"
#include "model/config/layer_mixing_config.h"
#include "model/config/model_config.h"

namespace braid {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMaxShots = 256;

absl::Status CheckRange(const char* field, int64_t got, int64_t most) {
  if (got >= 0 && got <= most) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(field, ": got ", got, ", expected 0 to ", most));
}

absl::Status CheckDataDirectory(const std::string& data_dir) {
  std::error_code error;
  if (fs::is_directory(data_dir, error)) return absl::OkStatus();
  return absl::NotFoundError(
      absl::StrCat("data_dir (--data): ", data_dir,
                   fs::exists(data_dir, error) ? " is not a directory" : " does not exist",
                   ", expected the directory with one folder of files per task"));
}

// Results of one model that differ in nothing but the number of experts have no counterpart.
absl::Status CheckFurtherModels(const v1::EvaluateTasksRequest& request) {
  if (request.further_models().empty()) return absl::OkStatus();
  if (request.active_experts_size() > 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("active_experts: got ", request.active_experts_size(),
                     " numbers with further_models, expected at most one"));
  }
  std::set<std::string> names = {request.model()};
  for (const std::string& name : request.further_models()) {
    if (names.insert(name).second) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("further_models: got ", name, " twice, expected each model once"));
  }
  return absl::OkStatus();
}

// Returns the specification of a task; one with only a name refers to the built-in task.
absl::StatusOr<v1::TaskSpec> ResolveTask(const v1::TaskSpec& asked) {
  v1::TaskSpec name_only;
  name_only.set_name(asked.name());
  if (asked.SerializeAsString() == name_only.SerializeAsString()) return BuiltinTask(asked.name());
  RETURN_IF_ERROR(CheckTaskSpec(asked));
  return asked;
}

// Names must be unique, because answers and results are stored by name.
absl::Status CheckNames(const std::vector<v1::TaskSpec>& specs) {
  std::set<std::string> names;
  for (const v1::TaskSpec& spec : specs) {
    if (!names.insert(spec.name()).second) {
      return absl::InvalidArgumentError(absl::StrCat(
          "tasks: \"", spec.name(), "\" is used by two tasks; give each task its own name"));
    }
  }
  return absl::OkStatus();
}

// Returns the tasks that were requested by name, whose files must exist.
absl::StatusOr<std::vector<v1::TaskSpec>> NamedTasks(const v1::EvaluateTasksRequest& request) {
  std::vector<v1::TaskSpec> specs;
  for (const v1::TaskSpec& asked : request.tasks()) {
    ASSIGN_OR_RETURN(v1::TaskSpec spec, ResolveTask(asked));
    RETURN_IF_ERROR(FindExamples(spec, request.data_dir()).status());
    specs.push_back(std::move(spec));
  }
  RETURN_IF_ERROR(CheckNames(specs));
  return specs;
}

absl::StatusOr<fs::path> AnswersDirectory(const v1::EvaluateTasksRequest& request,
                                          const ModelPath& path) {
  if (request.answers_dir().empty() && !path.run) {
    return absl::InvalidArgumentError(
        absl::StrCat(path.checkpoint.string(),
                     " is not in a run directory, where answers are stored; name a directory for "
                     "them (--answers)"));
  }
  const fs::path directory = request.answers_dir().empty()
                                 ? *path.run / (path.state.use_average ? "tasks-ema" : "tasks")
                                 : fs::path(request.answers_dir());
  RETURN_IF_ERROR(MakeDirectories(directory));
  return directory;
}

absl::StatusOr<TaskModel> FindTaskModel(const v1::EvaluateTasksRequest& request,
                                        const std::string& name) {
  ASSIGN_OR_RETURN(ModelPath path, FindModel(name, request.strict()));
  const absl::Status mixing = CheckMixingInference(path.state.model);
  if (!mixing.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(name, ": ", mixing.message()));
  }
  ASSIGN_OR_RETURN(fs::path answers_dir, AnswersDirectory(request, path));
  ASSIGN_OR_RETURN(std::string identity, CheckpointKey(path.checkpoint));
  if (path.state.use_average) identity += " average";
  std::optional<uint64_t> routing_seed;
  if (request.has_routing_seed() &&
      CheckRoutingSeed(path.state.model, request.routing_seed()).ok()) {
    routing_seed = request.routing_seed();
    absl::StrAppend(&identity, " routing ", *routing_seed);
  }
  if (request.embedding_noise() != 0) {
    absl::StrAppendFormat(&identity, " noise %.17g %d", request.embedding_noise(),
                          request.noise_seed());
  }
  return TaskModel{name, std::move(path), std::move(answers_dir), std::move(identity),
                   routing_seed};
}

}  // namespace

absl::Status CheckTasksRequest(const v1::EvaluateTasksRequest& request) {
  if (request.data_dir().empty()) {
    return absl::InvalidArgumentError(
        "data_dir: got none, expected the directory with the files of the tasks");
  }
  RETURN_IF_ERROR(CheckDataDirectory(request.data_dir()));
  RETURN_IF_ERROR(CheckRange("num_shots", request.num_shots(), kMaxShots));
  RETURN_IF_ERROR(
      CheckRange("max_examples", request.max_examples(), std::numeric_limits<int32_t>::max()));
  return CheckFurtherModels(request);
}

absl::StatusOr<std::vector<v1::TaskSpec>> TasksToAsk(const v1::EvaluateTasksRequest& request,
                                                     v1::TasksResult* result) {
  if (!request.tasks().empty()) return NamedTasks(request);
  std::vector<v1::TaskSpec> there;
  ASSIGN_OR_RETURN(const std::vector<v1::TaskSpec> specs, BuiltinTasks());
  for (const v1::TaskSpec& spec : specs) {
    const absl::Status found = FindExamples(spec, request.data_dir()).status();
    if (found.ok()) {
      there.push_back(spec);
    } else {
      (*result->mutable_skipped())[spec.name()] = std::string(found.message());
    }
  }
  if (!there.empty()) return there;
  return absl::NotFoundError(
      absl::StrCat(request.data_dir(),
                   " holds no task's files; 'braid eval tasks --list' lists the expected "
                   "files"));
}

absl::StatusOr<std::vector<TaskModel>> FindTaskModels(const v1::EvaluateTasksRequest& request) {
  std::vector<TaskModel> models;
  ASSIGN_OR_RETURN(TaskModel first, FindTaskModel(request, request.model()));
  models.push_back(std::move(first));
  for (const std::string& name : request.further_models()) {
    ASSIGN_OR_RETURN(TaskModel model, FindTaskModel(request, name));
    models.push_back(std::move(model));
  }
  std::vector<NamedModel> named;
  for (const TaskModel& model : models) {
    named.push_back({model.name, model.path.state.model});
    RETURN_IF_ERROR(ActiveExpertsToAsk(request, model).status());
  }
  RETURN_IF_ERROR(CheckExpertsAreChosen(request.active_experts(), named));
  const auto is_seeded = [](const TaskModel& model) { return model.routing_seed.has_value(); };
  if (request.has_routing_seed() && std::ranges::none_of(models, is_seeded)) {
    RETURN_IF_ERROR(CheckRoutingSeed(models[0].path.state.model, request.routing_seed()));
  }
  return models;
}

absl::StatusOr<std::vector<v1::InferenceRouting>> RoutingsToAsk(
    const v1::EvaluateTasksRequest& request, const v1::ModelConfig& model) {
  ASSIGN_OR_RETURN(std::vector<v1::InferenceRouting> routings,
                   ResolveRoutings(request.routings(), {v1::SEGMENT_ROUTING, v1::PROMPT_ROUTING}));
  // Without experts, and where every token chooses, all routings are the same.
  if (!UsesExperts(model) || model.routing().router() == v1::TOKEN_CHOICE) routings.resize(1);
  return routings;
}

absl::StatusOr<std::vector<int>> ActiveExpertsToAsk(const v1::EvaluateTasksRequest& request,
                                                    const TaskModel& model) {
  const v1::ModelConfig& config = model.path.state.model;
  const bool seeded = model.routing_seed.has_value();
  ASSIGN_OR_RETURN(std::vector<int> numbers,
                   RequestedExperts(request.active_experts(), {model.name, config}, seeded));
  if (numbers.empty()) numbers.push_back(InferenceExperts(config, seeded));
  return numbers;
}

int ShotsToAsk(const v1::EvaluateTasksRequest& request, const v1::ModelConfig& model) {
  if (request.has_num_shots()) return request.num_shots();
  return model.has_label_head() ? 0 : -1;
}

}  // namespace braid
