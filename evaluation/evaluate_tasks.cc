#include "evaluation/evaluate_tasks.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/atomic_file.h"
#include "base/status_macros.h"
#include "evaluation/task_prompts.h"
#include "evaluation/task_request.h"
#include "evaluation/tasks/task_comparison.h"
#include "evaluation/tasks/task_evaluation.h"
#include "evaluation/tasks/task_examples.h"
#include "evaluation/tasks/task_files.h"
#include "evaluation/tasks/task_spec.h"
#include "evaluation/trained_shares.h"
#include "formats/contamination.h"
#include "formats/tokenizer.h"
#include "model/config/inference_experts.h"
#include "model/language_model.h"
#include "runs/model_path.h"
#include "runs/run_directory.h"
#include "trainer/training_state.h"

namespace braid {
namespace {

namespace fs = std::filesystem;
using EmitTaskEvent = std::function<void(const v1::EvaluateTasksEvent&)>;

// Sets what the label head of a model answers, if it has one.
void SetHead(const v1::ModelConfig& config, AskedModel* asked) {
  const auto& classes = config.label_head().classes();
  asked->classes.assign(classes.begin(), classes.end());
  asked->predicts_numbers = config.label_head().regression();
}

// Checks all models before the first one is asked, which may take hours. Without names of tasks,
// those that a model cannot answer are skipped.
absl::Status CheckModels(const v1::EvaluateTasksRequest& request,
                         const std::vector<TaskModel>& models,
                         const std::vector<v1::TaskSpec>& specs) {
  for (const TaskModel& model : models) {
    AskedModel asked;
    SetHead(model.path.state.model, &asked);
    absl::Status status = CheckShots(asked, ShotsToAsk(request, model.path.state.model));
    for (size_t i = 0; status.ok() && !request.tasks().empty() && i < specs.size(); ++i) {
      status = CheckAnswerable(specs[i], asked);
    }
    if (status.ok()) continue;
    return absl::Status(status.code(), absl::StrCat(model.name, ": ", status.message()));
  }
  return absl::OkStatus();
}

AskedModel Ask(LanguageModel& model, const Tokenizer& tokenizer, std::string identity) {
  AskedModel asked;
  asked.codec = CodecOf(model.config(), tokenizer);
  asked.context_length = model.config().sequence_length();
  asked.identity = std::move(identity);
  SetHead(model.config(), &asked);
  asked.step_together = [&](std::span<Decoder* const> decoders, std::span<const int32_t> tokens) {
    return model.StepTogether(decoders, tokens);
  };
  asked.new_decoder = [&](v1::InferenceRouting routing) {
    return model.NewDecoder(routing == v1::PROMPT_ROUTING ? MergeMode::kPrompt
                                                          : MergeMode::kSegment);
  };
  return asked;
}

// Emits the progress of one task, at most ten events per second apart from the first and the last.
class ProgressEvents {
 public:
  ProgressEvents(const std::string& task, v1::InferenceRouting routing, int active_experts,
                 const EmitTaskEvent& emit)
      : emit_(emit) {
    event_.set_task(task);
    event_.set_routing(routing);
    event_.set_active_experts(active_experts);
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
  const EmitTaskEvent& emit_;
  v1::EvaluateTasksEvent event_;
  std::chrono::steady_clock::time_point told_;
};

// Returns the comparisons of a model's training text with evaluation data; none unless all of it
// was compared. A model that was trained or converted from another one has text that these do not
// cover.
absl::StatusOr<std::vector<Contamination>> ContaminationOf(const ModelPath& path) {
  std::vector<Contamination> all;
  if (!path.run.has_value() || path.state.partial.has_base()) return all;
  const absl::StatusOr<v1::RunSpec> spec = RunDirectory(*path.run).ReadSpec();
  // Without settings, the model was imported or moved.
  if (!spec.ok() || !spec->init_from().empty()) return all;
  std::vector<std::string> datasets;
  for (const v1::MixtureDataset& entry : spec->datasets()) datasets.push_back(entry.dataset());
  if (datasets.empty()) datasets.push_back(spec->dataset_dir());
  for (const std::string& dataset : datasets) {
    ASSIGN_OR_RETURN(std::optional<Contamination> one, ReadContamination(dataset));
    if (!one) return std::vector<Contamination>();
    all.push_back(*std::move(one));
  }
  return all;
}

class TaskRun {
 public:
  TaskRun(const v1::EvaluateTasksRequest& request, LanguageModel& weights, const AskedModel& model,
          std::vector<int> active_experts, std::vector<v1::InferenceRouting> routings,
          const fs::path& answers_dir, const std::vector<Contamination>& contamination,
          const TrainedShares& trained, const EmitTaskEvent& emit)
      : request_(request),
        weights_(weights),
        model_(model),
        trained_with_(weights.config().routing().token().active_experts()),
        active_experts_(std::move(active_experts)),
        routings_(std::move(routings)),
        contamination_(contamination),
        trained_(trained),
        emit_(emit) {
    options_.num_shots = ShotsToAsk(request, weights.config());
    options_.seed = request.seed();
    options_.max_examples = request.max_examples();
    options_.answers_dir = answers_dir;
    options_.want_examples = request.want_examples();
  }

  absl::Status AskAll(const std::vector<v1::TaskSpec>& specs, v1::TasksResult* result) {
    absl::Status unusable;
    for (const v1::TaskSpec& spec : specs) {
      const absl::StatusOr<LoadedTask> task = Load(spec);
      if (task.ok()) {
        RETURN_IF_ERROR(Ask(*task, result));
        const std::string note = LeftOutNote(trained_, *task);
        if (!note.empty()) (*result->mutable_skipped())[spec.name()] = note;
        continue;
      }
      if (!request_.tasks().empty()) return task.status();
      unusable = task.status();
      (*result->mutable_skipped())[spec.name()] =
          absl::StrCat(spec.name(), ": ", unusable.message());
    }
    return result->results().empty() ? unusable : absl::OkStatus();
  }

 private:
  // Reads a task that the model can answer.
  absl::StatusOr<LoadedTask> Load(const v1::TaskSpec& spec) const {
    RETURN_IF_ERROR(CheckAnswerable(spec, model_));
    return LoadTaskFor(trained_, spec, request_.data_dir(), ShotsOf(spec, options_.num_shots));
  }

  // Returns whether all datasets were compared with all files of the task's examples.
  absl::StatusOr<bool> WasCompared(const v1::TaskSpec& spec) const {
    if (contamination_.empty()) return false;
    ASSIGN_OR_RETURN(const v1::TaskFile* file, FindExamples(spec, request_.data_dir()));
    const fs::path folder = fs::path(request_.data_dir()) / TaskFolder(spec);
    for (const fs::path& path : MatchingFiles(folder, file->path())) {
      ASSIGN_OR_RETURN(const FileSummary summary, SummarizeFile(path));
      const auto covers = [&](const Contamination& one) {
        return one.Covers(summary.bytes, summary.crc32c);
      };
      if (!std::ranges::all_of(contamination_, covers)) return false;
    }
    return true;
  }

  absl::Status Ask(const LoadedTask& task, v1::TasksResult* result) {
    options_.is_clean = nullptr;
    ASSIGN_OR_RETURN(const bool compared, WasCompared(task.spec));
    if (compared) {
      options_.is_clean = [this](std::string_view text) {
        return std::ranges::all_of(contamination_,
                                   [&](const Contamination& one) { return one.IsClean(text); });
      };
    }
    for (const int active : active_experts_) {
      if (active > 0) RETURN_IF_ERROR(weights_.SetActiveExperts(active));
      options_.active_experts = active == trained_with_ ? 0 : active;
      for (const v1::InferenceRouting routing : routings_) {
        options_.routing = routing;
        const bool varies = HasVaryingExperts(weights_.config());
        ProgressEvents progress(task.spec.name(), routing, varies ? 0 : active, emit_);
        ASSIGN_OR_RETURN(v1::TaskResult scored, EvaluateTask(task, model_, options_, progress));
        scored.set_active_experts(active);
        scored.set_varying_experts(varies);
        *result->add_results() = std::move(scored);
      }
    }
    return absl::OkStatus();
  }

  const v1::EvaluateTasksRequest& request_;
  LanguageModel& weights_;
  const AskedModel& model_;
  const int trained_with_;
  const std::vector<int> active_experts_;
  const std::vector<v1::InferenceRouting> routings_;
  const std::vector<Contamination>& contamination_;
  const TrainedShares& trained_;
  const EmitTaskEvent& emit_;
  TaskEvaluationOptions options_;
};

// Adds the results of one model.
absl::Status EvaluateModel(const v1::EvaluateTasksRequest& request, const TaskModel& found,
                           const std::vector<v1::TaskSpec>& specs, const TrainedShares& trained,
                           const EmitTaskEvent& emit, v1::TasksResult* result) {
  ASSIGN_OR_RETURN(const std::vector<Contamination> contamination, ContaminationOf(found.path));
  ASSIGN_OR_RETURN(auto routings, RoutingsToAsk(request, found.path.state.model));
  ASSIGN_OR_RETURN(const auto model,
                   LoadModel(found.path.checkpoint, found.path.state.use_average));
  ASSIGN_OR_RETURN(const auto tokenizer,
                   Tokenizer::Load(found.path.checkpoint / "tokenizer.model"));
  const AskedModel asked = Ask(*model, *tokenizer, found.identity);
  ASSIGN_OR_RETURN(std::vector<int> active, ActiveExpertsToAsk(request, found));
  if (found.routing_seed) RETURN_IF_ERROR(model->SetRoutingSeed(*found.routing_seed));
  RETURN_IF_ERROR(model->SetInputNoise(request.embedding_noise(), request.noise_seed()));
  const int before = result->results_size();
  RETURN_IF_ERROR(TaskRun(request, *model, asked, std::move(active), std::move(routings),
                          found.answers_dir, contamination, trained, emit)
                      .AskAll(specs, result));
  if (request.further_models().empty()) return absl::OkStatus();
  for (int i = before; i < result->results_size(); ++i) {
    result->mutable_results(i)->set_model(found.name);
  }
  return absl::OkStatus();
}

// Returns the stored answers behind a result of `model`.
absl::StatusOr<std::vector<ExampleAnswer>> AnswersOf(const v1::EvaluateTasksRequest& request,
                                                     const LoadedTask& task, const TaskModel& model,
                                                     const v1::TaskResult& result) {
  TaskEvaluationOptions options;
  options.routing = result.routing();
  options.num_shots = ShotsToAsk(request, model.path.state.model);
  options.seed = request.seed();
  options.max_examples = request.max_examples();
  options.answers_dir = model.answers_dir;
  const int trained_with = model.path.state.model.routing().token().active_experts();
  if (result.active_experts() != trained_with) options.active_experts = result.active_experts();
  AskedModel asked;
  asked.context_length = model.path.state.model.sequence_length();
  asked.identity = model.identity;
  return StoredAnswers(task, asked, options);
}

// Returns the result of `model` to compare with `result`: of the same task and, if it has several,
// of the same routing.
const v1::TaskResult* BaselineOf(const v1::TasksResult& all, const std::string& model,
                                 const v1::TaskResult& result) {
  const v1::TaskResult* baseline = nullptr;
  for (const v1::TaskResult& one : all.results()) {
    if (one.model() != model || one.task() != result.task()) continue;
    if (baseline == nullptr || one.routing() == result.routing()) baseline = &one;
  }
  return baseline;
}

// Compares every further model with the first.
absl::Status AddComparisons(const v1::EvaluateTasksRequest& request,
                            const std::vector<TaskModel>& models,
                            const std::vector<v1::TaskSpec>& specs, const TrainedShares& trained,
                            v1::TasksResult* result) {
  std::map<std::pair<std::string, int>, LoadedTask> tasks;  // by name and demonstrations
  const auto loaded = [&](const TaskModel& model,
                          const std::string& name) -> absl::StatusOr<const LoadedTask*> {
    const auto spec = std::ranges::find_if(
        specs, [&](const v1::TaskSpec& asked) { return asked.name() == name; });
    const int shots = ShotsOf(*spec, ShotsToAsk(request, model.path.state.model));
    const auto place = tasks.find({name, shots});
    if (place != tasks.end()) return &place->second;
    ASSIGN_OR_RETURN(LoadedTask task, LoadTaskFor(trained, *spec, request.data_dir(), shots));
    return &tasks.emplace(std::pair(name, shots), std::move(task)).first->second;
  };
  const v1::TasksResult all = *result;
  for (const v1::TaskResult& one : all.results()) {
    const auto model = std::ranges::find(models, one.model(), &TaskModel::name);
    const v1::TaskResult* const baseline = BaselineOf(all, models[0].name, one);
    if (model == models.begin() || baseline == nullptr) continue;
    ASSIGN_OR_RETURN(const LoadedTask* const first, loaded(models[0], one.task()));
    ASSIGN_OR_RETURN(const LoadedTask* const task, loaded(*model, one.task()));
    ASSIGN_OR_RETURN(const auto before, AnswersOf(request, *first, models[0], *baseline));
    ASSIGN_OR_RETURN(const auto after, AnswersOf(request, *task, *model, one));
    for (v1::TaskComparison& comparison : CompareAnswers(*task, before, after)) {
      comparison.set_routing(one.routing());
      comparison.set_baseline(models[0].name);
      comparison.set_model(one.model());
      *result->add_comparisons() = std::move(comparison);
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status EvaluateTasks(const v1::EvaluateTasksRequest& request, const EmitTaskEvent& emit) {
  SetModelThreads(request.num_threads());
  RETURN_IF_ERROR(CheckTasksRequest(request));
  v1::EvaluateTasksEvent last;
  v1::TasksResult* result = last.mutable_result();
  ASSIGN_OR_RETURN(const std::vector<TaskModel> models, FindTaskModels(request));
  ASSIGN_OR_RETURN(const std::vector<v1::TaskSpec> specs, TasksToAsk(request, result));
  RETURN_IF_ERROR(CheckModels(request, models, specs));
  result->set_model(request.model());
  result->set_step(models[0].path.source.step());
  *result->mutable_source() = models[0].path.source;
  // What one model was trained on is left out for all, so that they answer the same examples.
  TrainedShares trained;
  for (const TaskModel& model : models) {
    ASSIGN_OR_RETURN(const std::string note, AddTrainedShares(model.name, model.path, &trained));
    if (!note.empty()) (*result->mutable_skipped())[model.name] = note;
  }
  for (const TaskModel& model : models) {
    if (&model != &models[0]) *result->add_further_sources() = model.path.source;
    RETURN_IF_ERROR(EvaluateModel(request, model, specs, trained, emit, result));
  }
  RETURN_IF_ERROR(AddComparisons(request, models, specs, trained, result));
  emit(last);
  return absl::OkStatus();
}

}  // namespace braid
