#include "reproduce/tuning_plan.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "absl/strings/str_format.h"
#include "base/check.h"
#include "base/splitmix.h"
#include "base/status_macros.h"
#include "braid/v1/analysis.pb.h"
#include "evaluation/tasks/task_evaluation.h"
#include "evaluation/tasks/task_examples.h"
#include "evaluation/tasks/task_spec.h"

namespace braid {
namespace {

// Scoring of a fine-tuned model on one example of a task: 0.009 to 0.016 s beside other programs.
// The texts of E2E took 2 minutes a model with ten beams.
constexpr double kSecondsOfExample = 0.015;
constexpr double kSecondsOfBeam = 0.03;

v1::AnalyzeLayersRequest ChoicesRequest(const TunedTask& task, const std::string& run_id,
                                        const std::string& tasks_dir) {
  v1::AnalyzeLayersRequest request;
  request.set_model(run_id);
  for (const std::string& name : task.trained()) request.add_tasks(name);
  request.set_tasks_dir(tasks_dir);
  request.set_num_threads(1);
  request.set_strict(true);
  return request;
}

// Parsed once: the forecast asks for each run.
const v1::TaskSpec& BuiltIn(const std::string& name) {
  static const std::map<std::string, v1::TaskSpec> specs = [] {
    std::map<std::string, v1::TaskSpec> by_name;
    const std::vector<v1::TaskSpec> all = BuiltinTasks().value();
    for (const v1::TaskSpec& spec : all) by_name[spec.name()] = spec;
    return by_name;
  }();
  return specs.at(name);
}

// Returns the beams with which models write the answers of a task; 0 if it asks for no search.
int32_t BeamsOf(const Experiment& experiment, const v1::TaskSpec& task) {
  const int32_t beams = task.free().num_beams();
  return beams > 0 && experiment.text_beams > 0 ? experiment.text_beams : beams;
}

// Returns a built-in task for a request: its name, or all of it with other beams.
v1::TaskSpec RequestedTask(const Experiment& experiment, const std::string& name) {
  v1::TaskSpec spec = BuiltIn(name);
  const int32_t beams = BeamsOf(experiment, spec);
  if (beams == spec.free().num_beams()) {
    spec.Clear();
    spec.set_name(name);
  } else {
    spec.mutable_free()->set_num_beams(beams);
  }
  return spec;
}

}  // namespace

const TunedTask& TaskOfRun(const Experiment& experiment, const PlannedRun& run) {
  const auto found = std::ranges::find(experiment.tasks, run.task, &TunedTask::name);
  BRAID_CHECK(found != experiment.tasks.end()) << run.name();
  return *found;
}

size_t BaseRunOf(const ReproductionPlan& plan, const PlannedRun& run) {
  const auto found = std::ranges::find_if(plan.runs, [&](const PlannedRun& other) {
    return other.arm.name == run.arm.tuning->base && other.seed == run.seed;
  });
  BRAID_CHECK(found != plan.runs.end()) << run.name();
  return static_cast<size_t>(found - plan.runs.begin());
}

v1::ConvertRequest PlannedSplit(const v1::ExpertSplit& split, uint64_t seed,
                                const std::string& model) {
  v1::ConvertRequest request;
  request.set_model(model);
  request.set_force(true);
  request.set_strict(true);
  *request.mutable_split() = split;
  request.mutable_split()->set_seed(seed);
  return request;
}

v1::RunSpec TunedRunSpec(const ReproductionPlan& plan, const PlannedRun& run,
                         const std::string& init_from, const std::string& dataset_dir) {
  v1::RunSpec spec = plan.experiment->tuning_settings;
  spec.MergeFrom(run.arm.settings);
  spec.set_name(run.name());
  spec.set_init_from(init_from);
  spec.set_dataset_dir(dataset_dir);
  const double epochs = run.arm.tuning->epochs;
  if (plan.tuning_steps > 0) {
    const double steps = static_cast<double>(plan.tuning_steps) * epochs;
    spec.set_num_steps(std::max<int64_t>(std::llround(steps), 1));
  } else {
    spec.mutable_length()->set_epochs(plan.epochs * epochs);
  }
  SetProcesses(run, &spec);
  return spec;
}

std::vector<PlannedTaskScore> PlannedTaskScores(const ReproductionPlan& plan, const PlannedRun& run,
                                                const std::string& run_id,
                                                const std::string& tasks_dir) {
  const TunedTask& task = TaskOfRun(*plan.experiment, run);
  v1::EvaluateTasksRequest request;
  request.set_model(run_id);
  request.set_data_dir(tasks_dir);
  for (const std::string& name : task.trained()) {
    *request.add_tasks() = RequestedTask(*plan.experiment, name);
  }
  request.set_num_shots(0);
  request.add_routings(v1::SEGMENT_ROUTING);
  request.set_max_examples(static_cast<int32_t>(plan.max_examples));
  request.set_num_threads(1);
  request.set_strict(true);
  request.set_want_examples(true);
  std::vector<PlannedTaskScore> scores;
  for (const TaskScoring& scoring : ScoringsOf(run.arm, task)) {
    PlannedTaskScore& score = scores.emplace_back();
    score.scoring = scoring.name;
    score.request = request;
    if (scoring.further) {
      for (const std::string& further : task.further) {
        *score.request.add_tasks() = RequestedTask(*plan.experiment, further);
      }
    }
    if (scoring.active_experts > 0) score.request.add_active_experts(scoring.active_experts);
    if (scoring.embedding_noise > 0) score.request.set_embedding_noise(scoring.embedding_noise);
    if (scoring.split.has_value()) {
      score.conversion = PlannedSplit(*scoring.split, run.seed, run_id);
    }
  }
  return scores;
}

double PlannedTaskSeconds(const ReproductionPlan& plan, const PlannedRun& run) {
  double seconds = 0;
  for (const PlannedTaskScore& score : PlannedTaskScores(plan, run, "", "")) {
    for (const v1::TaskSpec& task : score.request.tasks()) {
      const int32_t beams = BeamsOf(*plan.experiment, BuiltIn(task.name()));
      seconds += kSecondsOfExample + kSecondsOfBeam * beams;
    }
  }
  return seconds * static_cast<double>(plan.max_examples);
}

absl::StatusOr<std::string> DigestOfTask(const TunedTask& task, const std::string& tasks_dir) {
  std::vector<std::string> names = task.trained();
  names.insert(names.end(), task.further.begin(), task.further.end());
  uint64_t digest = 0;
  for (const std::string& name : names) {
    ASSIGN_OR_RETURN(const LoadedTask loaded, LoadTask(BuiltIn(name), tasks_dir, /*num_shots=*/0));
    digest = Mix64(digest, TaskDigest(loaded));
  }
  return absl::StrFormat("%016x", digest);
}

std::optional<v1::AnalyzeExpertsRequest> PlannedExpertAnalysis(const ReproductionPlan& plan,
                                                               const PlannedRun& run,
                                                               const std::string& run_id,
                                                               const std::string& dataset_dir) {
  if (!run.arm.measured_experts.has_value()) return std::nullopt;
  if (run.arm.tuning.has_value() && TaskOfRun(*plan.experiment, run).is_extra) return std::nullopt;
  v1::AnalyzeExpertsRequest request;
  request.set_model(run_id);
  request.set_dataset_dir(dataset_dir);
  *request.mutable_split() = *run.arm.measured_experts;
  if (request.split().num_experts() > 0) request.mutable_split()->set_seed(run.seed);
  request.set_num_threads(1);
  request.set_strict(true);
  return request;
}

std::optional<v1::AnalyzeLayersRequest> PlannedLayerChoices(const ReproductionPlan& plan,
                                                            const PlannedRun& run,
                                                            const std::string& run_id,
                                                            const std::string& tasks_dir) {
  if (!run.arm.counts_layer_choices) return std::nullopt;
  const TunedTask& task = TaskOfRun(*plan.experiment, run);
  if (task.is_extra) return std::nullopt;
  return ChoicesRequest(task, run_id, tasks_dir);
}

}  // namespace braid
