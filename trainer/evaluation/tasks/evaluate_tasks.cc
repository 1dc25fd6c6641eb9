#include "trainer/evaluation/tasks/evaluate_tasks.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "formats/atomic_file.h"
#include "formats/status_macros.h"
#include "formats/tokenizer.h"
#include "trainer/checkpoint.h"
#include "trainer/evaluation/tasks/task_evaluation.h"
#include "trainer/evaluation/tasks/task_examples.h"
#include "trainer/evaluation/tasks/task_spec.h"
#include "trainer/model/language_model.h"
#include "trainer/model_config.h"
#include "trainer/model_path.h"
#include "trainer/training_state.h"

namespace braid {
namespace {

namespace fs = std::filesystem;
using Emit = std::function<void(const v1::EvaluateTasksEvent&)>;

// A name alone stands for the built-in task.
absl::StatusOr<v1::TaskSpec> ResolveTask(const v1::TaskSpec& asked) {
  v1::TaskSpec name_only;
  name_only.set_name(asked.name());
  if (asked.SerializeAsString() == name_only.SerializeAsString()) return BuiltinTask(asked.name());
  RETURN_IF_ERROR(CheckTaskSpec(asked));
  return asked;
}

absl::StatusOr<std::vector<LoadedTask>> LoadNamedTasks(const v1::EvaluateTasksRequest& request) {
  std::vector<LoadedTask> tasks;
  for (const v1::TaskSpec& asked : request.tasks()) {
    ASSIGN_OR_RETURN(const v1::TaskSpec spec, ResolveTask(asked));
    ASSIGN_OR_RETURN(LoadedTask task, LoadTask(spec, request.data_dir()));
    tasks.push_back(std::move(task));
  }
  return tasks;
}

absl::StatusOr<std::vector<LoadedTask>> LoadTasks(const v1::EvaluateTasksRequest& request,
                                                  v1::TasksResult* result) {
  if (request.data_dir().empty()) {
    return absl::InvalidArgumentError("data_dir: name the directory with the files of the tasks");
  }
  if (!request.tasks().empty()) return LoadNamedTasks(request);
  std::vector<LoadedTask> tasks;
  ASSIGN_OR_RETURN(const std::vector<v1::TaskSpec> specs, BuiltinTasks());
  for (const v1::TaskSpec& spec : specs) {
    absl::StatusOr<LoadedTask> task = LoadTask(spec, request.data_dir());
    if (absl::IsNotFound(task.status())) {
      (*result->mutable_skipped())[spec.name()] = std::string(task.status().message());
      continue;
    }
    if (!task.ok()) return task.status();
    tasks.push_back(*std::move(task));
  }
  if (!tasks.empty()) return tasks;
  return absl::NotFoundError(
      absl::StrCat(request.data_dir(),
                   " has files of no task; braid eval tasks --list tells what "
                   "is looked for"));
}

absl::StatusOr<fs::path> AnswersDirectory(const v1::EvaluateTasksRequest& request,
                                          const ModelPath& path) {
  if (request.answers_dir().empty() && !path.run) {
    return absl::InvalidArgumentError(
        absl::StrCat(path.checkpoint.string(),
                     " is not in a run directory, where answers are kept; set answers_dir"));
  }
  const fs::path directory =
      request.answers_dir().empty() ? *path.run / "tasks" : fs::path(request.answers_dir());
  RETURN_IF_ERROR(MakeDirectories(directory));
  return directory;
}

// Weights and tokenizer, by the checkpoint's list of digests.
absl::StatusOr<std::string> IdentityOf(const fs::path& checkpoint) {
  ASSIGN_OR_RETURN(const FileSummary manifest, SummarizeFile(checkpoint / "manifest.json"));
  return absl::StrCat(checkpoint.filename().string(), " ", manifest.bytes, " ", manifest.crc32c);
}

std::vector<v1::InferenceRouting> Routings(const v1::EvaluateTasksRequest& request,
                                           const v1::ModelConfig& model) {
  std::vector<v1::InferenceRouting> routings;
  for (const int routing : request.routings()) {
    if (routing != v1::INFERENCE_ROUTING_UNSPECIFIED) {
      routings.push_back(static_cast<v1::InferenceRouting>(routing));
    }
  }
  if (!routings.empty()) return routings;
  // Without experts they are the same.
  if (!UsesExperts(model)) return {v1::SEGMENT_ROUTING};
  return {v1::SEGMENT_ROUTING, v1::PROMPT_ROUTING};
}

AskedModel Ask(LanguageModel& model, const Tokenizer& tokenizer, std::string identity) {
  AskedModel asked;
  asked.codec.encode = [&](std::string_view text) { return tokenizer.Encode(text); };
  asked.codec.decode = [&](std::span<const int32_t> tokens) { return tokenizer.Decode(tokens); };
  asked.codec.eos_id = tokenizer.eos_id();
  asked.context_length = model.config().sequence_length();
  asked.identity = std::move(identity);
  asked.new_decoder = [&](v1::InferenceRouting routing) {
    return model.NewDecoder(routing == v1::PROMPT_ROUTING ? MergeMode::kPrompt
                                                          : MergeMode::kSegment);
  };
  return asked;
}

// Events of one task, at most ten a second but for its first and last.
class ProgressEvents {
 public:
  ProgressEvents(const std::string& task, v1::InferenceRouting routing, const Emit& emit)
      : emit_(emit) {
    event_.set_task(task);
    event_.set_routing(routing);
  }

  void operator()(int64_t done, int64_t total) {
    const auto now = std::chrono::steady_clock::now();
    if (done > 0 && done < total && now - told_ < std::chrono::milliseconds(100)) return;
    told_ = now;
    event_.set_done(done);
    event_.set_total(total);
    emit_(event_);
  }

 private:
  const Emit& emit_;
  v1::EvaluateTasksEvent event_;
  std::chrono::steady_clock::time_point told_;
};

absl::Status Run(const v1::EvaluateTasksRequest& request, const std::vector<LoadedTask>& tasks,
                 const AskedModel& model, const std::vector<v1::InferenceRouting>& routings,
                 const fs::path& answers_dir, const Emit& emit, v1::TasksResult* result) {
  TaskEvaluationOptions options;
  options.num_shots = request.has_num_shots() ? request.num_shots() : -1;
  options.seed = request.seed();
  options.max_examples = request.max_examples();
  options.answers_dir = answers_dir;
  for (const LoadedTask& task : tasks) {
    for (const v1::InferenceRouting routing : routings) {
      options.routing = routing;
      ProgressEvents progress(task.spec.name(), routing, emit);
      ASSIGN_OR_RETURN(*result->add_results(), EvaluateTask(task, model, options, progress));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status EvaluateTasks(const v1::EvaluateTasksRequest& request, const Emit& emit) {
  SetModelThreads(request.num_threads() > 0
                      ? request.num_threads()
                      : std::max(1, static_cast<int>(std::thread::hardware_concurrency())));
  if (request.has_num_shots() && request.num_shots() < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("num_shots: got ", request.num_shots(), ", expected at least 0"));
  }
  v1::EvaluateTasksEvent last;
  ASSIGN_OR_RETURN(const ModelPath path, FindModel(request.model(), std::cerr));
  ASSIGN_OR_RETURN(const std::vector<LoadedTask> tasks, LoadTasks(request, last.mutable_result()));
  ASSIGN_OR_RETURN(const fs::path answers_dir, AnswersDirectory(request, path));
  ASSIGN_OR_RETURN(const CheckpointState state, ReadCheckpointState(path.checkpoint));
  ASSIGN_OR_RETURN(std::string identity, IdentityOf(path.checkpoint));
  ASSIGN_OR_RETURN(const auto model, LoadModel(path.checkpoint));
  ASSIGN_OR_RETURN(const auto tokenizer, Tokenizer::Load(path.checkpoint / "tokenizer.model"));
  last.mutable_result()->set_model(request.model());
  last.mutable_result()->set_step(state.step);
  RETURN_IF_ERROR(Run(request, tasks, Ask(*model, *tokenizer, std::move(identity)),
                      Routings(request, model->config()), answers_dir, emit,
                      last.mutable_result()));
  emit(last);
  return absl::OkStatus();
}

}  // namespace braid
