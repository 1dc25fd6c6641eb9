// The requests of fine-tuning runs: conversions of their base models, training and scoring on
// tasks. Pure functions, as reproduction_plan.h.
#ifndef BRAID_REPRODUCE_TUNING_PLAN_H_
#define BRAID_REPRODUCE_TUNING_PLAN_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "braid/v1/analysis.pb.h"
#include "braid/v1/conversion.pb.h"
#include "braid/v1/evaluation.pb.h"
#include "braid/v1/training.pb.h"
#include "reproduce/reproduction_plan.h"

namespace braid {

// Returns the index of the run whose model a fine-tuning run of the plan starts from.
size_t BaseRunOf(const ReproductionPlan& plan, const PlannedRun& run);

// Returns the task of a fine-tuning run.
const TunedTask& TaskOfRun(const Experiment& experiment, const PlannedRun& run);

// Returns the conversion of a model into experts, without an output directory, which the seed of
// the run decides; `model` is a run id.
v1::ConvertRequest PlannedSplit(const v1::ExpertSplit& split, uint64_t seed,
                                const std::string& model);

// Returns the settings of a fine-tuning run from the model `init_from`, a run id or a checkpoint
// directory, on a supervised dataset.
v1::RunSpec TunedRunSpec(const ReproductionPlan& plan, const PlannedRun& run,
                         const std::string& init_from, const std::string& dataset_dir);

// A scoring of a fine-tuned model on its tasks.
struct PlannedTaskScore {
  // TaskScoring::name.
  std::string scoring = {};
  // Converts the model before it is scored; without an output directory.
  std::optional<v1::ConvertRequest> conversion = {};
  // Its model is the run, which is to be replaced by the converted one.
  v1::EvaluateTasksRequest request = {};
};

// Returns the scorings of a fine-tuned model on its task and, where they ask for them, on the
// further ones. `tasks_dir` is the directory of the task files. Nothing is demonstrated before a
// question.
std::vector<PlannedTaskScore> PlannedTaskScores(const ReproductionPlan& plan, const PlannedRun& run,
                                                const std::string& run_id,
                                                const std::string& tasks_dir);

// Returns the seconds of these scorings on one thread.
double PlannedTaskSeconds(const ReproductionPlan& plan, const PlannedRun& run);

// Returns a digest of what a model that is tuned on a task is scored on: specifications, the rules
// of scoring, and the files in `tasks_dir`. Errors are those of LoadTask.
absl::StatusOr<std::string> DigestOfTask(const TunedTask& task, const std::string& tasks_dir);

// Return the analyses that the arm of the run asks for: of the activations in experts on the
// held-out text of `dataset_dir`, and of the choices of mixing layers for prompts of its task. None
// for extra tasks.
std::optional<v1::AnalyzeExpertsRequest> PlannedExpertAnalysis(const ReproductionPlan& plan,
                                                               const PlannedRun& run,
                                                               const std::string& run_id,
                                                               const std::string& dataset_dir);
std::optional<v1::AnalyzeLayersRequest> PlannedLayerChoices(const ReproductionPlan& plan,
                                                            const PlannedRun& run,
                                                            const std::string& run_id,
                                                            const std::string& tasks_dir);

}  // namespace braid

#endif  // BRAID_REPRODUCE_TUNING_PLAN_H_
