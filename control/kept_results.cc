#include "control/kept_results.h"

#include <google/protobuf/util/message_differencer.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/atomic_file.h"
#include "base/check.h"
#include "base/file_lock.h"
#include "base/sealed_text.h"
#include "base/status_macros.h"
#include "evaluation/tasks/task_spec.h"
#include "proto/message_json.h"
#include "runs/model_path.h"
#include "runs/run_directory.h"
#include "runs/run_evaluation.h"

namespace braid {
namespace {

namespace fs = std::filesystem;

bool MayBelongToRuns(const v1::EvaluateRequest& request) {
  return request.paths().empty() && request.max_windows_per_domain() == 0 &&
         request.first_positions() == 0 && !request.want_windows() &&
         request.fixed_weights().empty() && request.bootstrap_samples() == 0 &&
         request.bootstrap_seed() == 0 && request.confidence() == 0 &&
         !request.has_routing_seed() && request.embedding_noise() == 0;
}

bool BelongsToRun(const v1::Evaluation& evaluation, const std::string& dataset_dir) {
  const fs::path model = evaluation.model();
  if (evaluation.routing() == v1::PROMPT_ROUTING || !IsRunDirectory(model)) return false;
  const absl::StatusOr<v1::RunSpec> spec = RunDirectory(model).ReadSpec();
  return spec.ok() && spec->dataset_dir() == dataset_dir &&
         (evaluation.first_segment_length() == 0 ||
          spec->model().routing().segment_length() == evaluation.first_segment_length());
}

// Returns whether a result of a run used the number of active experts that the run ends with, or
// one that the request did not name.
template <class Request, class Result>
bool HasUsualExperts(const Request& request, const fs::path& run_dir, const Result& result) {
  if (request.active_experts().empty()) return true;
  const absl::StatusOr<v1::RunSpec> spec = RunDirectory(run_dir).ReadSpec();
  return spec.ok() && spec->model().routing().token().active_experts() == result.active_experts();
}

// Returns the evaluations of one model, without figures by expert.
v1::EvaluationResult EvaluationsOf(const v1::EvaluationResult& result, const std::string& model) {
  v1::EvaluationResult own;
  own.set_dataset_dir(result.dataset_dir());
  own.set_confidence(result.confidence());
  for (const v1::Evaluation& evaluation : result.evaluations()) {
    if (evaluation.model() != model || evaluation.routing() == v1::PROMPT_ROUTING) continue;
    v1::Evaluation* const kept = own.add_evaluations();
    *kept = evaluation;
    for (v1::DomainEvaluation& domain : *kept->mutable_domains()) domain.clear_routing();
    kept->mutable_total()->clear_routing();
  }
  return own;
}

// Blocks while another thread or process stores results in `directory`: of two at the same time,
// one would be lost. Callers continue without a lock where they get none: on a file system without
// locks, or if the lock file belongs to another user.
absl::StatusOr<FileLock> LockResults(const fs::path& directory) {
  return FileLock::Take(directory / "results.lock");
}

bool IsWritable(const fs::path& directory) { return access(directory.c_str(), W_OK) == 0; }

absl::Status WriteJson(const google::protobuf::Message& message, const fs::path& path) {
  const std::optional<std::string> text = MessageToJson(message);
  if (!text) {
    return absl::InternalError(absl::StrCat(path.string(), ": cannot convert the result to JSON"));
  }
  const nlohmann::json object = nlohmann::json::parse(*text, nullptr, /*allow_exceptions=*/false);
  BRAID_CHECK(object.is_object()) << text->substr(0, 100);
  return WriteFileAtomically(path, SealJson(object));
}

// Returns an empty result when there is none, or none of this step.
v1::TasksResult KeptTasks(const fs::path& path, int64_t step) {
  v1::TasksResult kept;
  const absl::StatusOr<std::string> text = ReadFile(path);
  if (!text.ok() || !ParseKeptResult(*text, path, &kept).ok() || kept.step() != step) return {};
  return kept;
}

// Returns whether the task is built in; a task of the user may have the same name.
bool HasBuiltinTasks(const v1::EvaluateTasksRequest& request) {
  return std::ranges::all_of(request.tasks(), [](const v1::TaskSpec& asked) {
    v1::TaskSpec name_only;
    name_only.set_name(asked.name());
    const absl::StatusOr<v1::TaskSpec> builtin = BuiltinTask(asked.name());
    return builtin.ok() && (google::protobuf::util::MessageDifferencer::Equals(asked, name_only) ||
                            google::protobuf::util::MessageDifferencer::Equals(asked, *builtin));
  });
}

bool HasLabelHead(const fs::path& run_dir) {
  const absl::StatusOr<v1::RunSpec> spec = RunDirectory(run_dir).ReadSpec();
  return spec.ok() && spec->model().has_label_head();
}

// Returns whether a task was scored with its own number of shots, which is 0 for a label head.
bool HasUsualShots(const v1::TaskResult& result, bool has_label_head) {
  const absl::StatusOr<v1::TaskSpec> builtin = BuiltinTask(result.task());
  return builtin.ok() && result.num_shots() == (has_label_head ? 0 : builtin->num_shots());
}

void PutResult(const v1::TaskResult& result, v1::TasksResult* kept) {
  auto same = std::ranges::find_if(*kept->mutable_results(), [&](const auto& other) {
    return other.task() == result.task() && other.routing() == result.routing();
  });
  v1::TaskResult& entry = same != kept->mutable_results()->end() ? *same : *kept->add_results();
  entry = result;
  entry.clear_examples();
}

}  // namespace

absl::Status KeepEvaluations(const v1::EvaluateRequest& request,
                             const v1::EvaluationResult& result) {
  if (!MayBelongToRuns(request)) return absl::OkStatus();
  for (const v1::Evaluation& evaluation : result.evaluations()) {
    const fs::path run_dir = evaluation.model();
    if (!BelongsToRun(evaluation, result.dataset_dir()) || !IsWritable(run_dir)) continue;
    const absl::StatusOr<FileLock> lock = LockResults(run_dir);
    if (HasUsualExperts(request, run_dir, evaluation)) {
      RETURN_IF_ERROR(WriteJson(evaluation, RunDirectory(run_dir).evaluation()));
    }
    const v1::EvaluationResult all = EvaluationsOf(result, evaluation.model());
    if (request.active_experts_size() < 2 || all.evaluations_size() < 2) continue;
    RETURN_IF_ERROR(WriteJson(all, run_dir / kActiveExpertsFile));
  }
  return absl::OkStatus();
}

absl::Status KeepTasks(const v1::EvaluateTasksRequest& request, const v1::TasksResult& result) {
  const fs::path run_dir = request.model(), tasks = run_dir / "tasks";
  const bool standard = request.answers_dir().empty() && request.max_examples() == 0 &&
                        request.seed() == 0 && request.further_models().empty() &&
                        !request.has_routing_seed() && request.embedding_noise() == 0 &&
                        HasBuiltinTasks(request);
  if (!standard || !IsRunDirectory(run_dir) || !IsWritable(tasks)) return absl::OkStatus();
  const fs::path path = tasks / "result.json";
  const bool has_label_head = HasLabelHead(run_dir);
  const auto is_standard = [&](const v1::TaskResult& task) {
    return HasUsualShots(task, has_label_head) && HasUsualExperts(request, run_dir, task);
  };
  if (std::ranges::none_of(result.results(), is_standard)) return absl::OkStatus();
  const absl::StatusOr<FileLock> lock = LockResults(tasks);
  v1::TasksResult kept = KeptTasks(path, result.step());
  kept.set_model(result.model());
  kept.set_step(result.step());
  *kept.mutable_source() = result.source();
  for (const v1::TaskResult& task : result.results()) {
    if (is_standard(task)) PutResult(task, &kept);
    kept.mutable_skipped()->erase(task.task());
  }
  for (const auto& [name, cause] : result.skipped()) (*kept.mutable_skipped())[name] = cause;
  return WriteJson(kept, path);
}

}  // namespace braid
