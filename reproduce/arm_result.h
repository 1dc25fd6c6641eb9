// The measurements of the runs of an experiment: plain values, from which every claim is computed.
#ifndef BRAID_REPRODUCE_ARM_RESULT_H_
#define BRAID_REPRODUCE_ARM_RESULT_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "braid/v1/corpus.pb.h"
#include "braid/v1/evaluation.pb.h"
#include "braid/v1/training.pb.h"

namespace braid::v1 {
class ExpertActivity;
class LayerAnalysis;
}  // namespace braid::v1

namespace braid {

// The router weights with which experts were merged while held-out text was scored.
enum class ScoredRouting {
  // Weights of the routers, one decision per segment, as in training.
  kSegment,
  // Weights of the routers, one decision per window.
  kPrompt,
  // Mean weights of each layer over all held-out segments.
  kAverage,
  // Equal weights, 1 / E.
  kUniform,
  // Mean weights over the next domain in order of name.
  kOtherDomain,
};

// The losses of a window, as sums in nats.
struct WindowLoss {
  double first_loss = 0;
  int64_t first_tokens = 0;
  double later_loss = 0;
  int64_t later_tokens = 0;
};

struct DomainWindows {
  std::string domain = {};
  // In the order of the held-out split, which is the order of the sources.
  std::vector<WindowLoss> windows = {};
};

// One scoring of the whole held-out split.
struct HeldoutScore {
  ScoredRouting routing = ScoredRouting::kSegment;
  // Number of positions of a window that count as first.
  int32_t first_positions = 0;
  // Experts per token of a TOKEN_CHOICE model; 0: other models.
  int32_t active_experts = 0;
  // Name of the dataset whose held-out split was scored; empty: the first of the experiment.
  std::string dataset = {};
  std::vector<DomainWindows> domains = {};
};

// Mean routing weights of a domain [layer][expert].
struct DomainWeights {
  std::string domain = {};
  std::vector<std::vector<double>> layers = {};
};

// A fine-tuned model on one task.
struct TaskScore {
  // The task that was scored.
  std::string task = {};
  // TaskScoring::name.
  std::string scoring = {};
  // Nats of the right answer to each example, and its part of the task's main figure (empty for
  // figures of the whole task).
  std::vector<double> answer_losses = {};
  std::vector<double> figures = {};
  // Figures of the whole task by name, such as "bleu".
  std::map<std::string, double> metrics = {};
};

// Shares of a layer's activations, as in v1::LayerExpertActivity.
struct ExpertMass {
  double chosen = 0;
  double random = 0;
};

// One run: an arm of the experiment on one order of the documents with one seed.
struct ArmResult {
  std::string arm = {};
  v1::OrderMode order = v1::SIMILARITY;
  uint64_t seed = 0;
  // Experts per layer; 1: dense.
  int32_t num_experts = 1;
  std::vector<HeldoutScore> heldout = {};
  // In the order of the steps.
  std::vector<v1::StepMetrics> metrics = {};
  // With kSegment routing; empty for a dense model.
  std::vector<DomainWeights> routing = {};
  // The task on which the model was fine-tuned, and its scores; empty for other runs.
  std::string task = {};
  std::vector<TaskScore> tasks = {};
  // Activations in ArmDefinition::measured_experts [layer]; empty without.
  std::vector<ExpertMass> expert_mass = {};
  // Share of the tokens of held-out text that choose other experts than before fine-tuning, in the
  // mean over layers; nullopt where it is not measured.
  std::optional<double> changed_choices = {};
  // Shares of the layers that each mixing layer chooses for the prompts of `task` [layer][choice];
  // empty where they are not counted.
  std::vector<std::vector<double>> layer_choices = {};
};

// Returns the routing with which the evaluation was made.
ScoredRouting ScoredRoutingOf(const v1::Evaluation& evaluation);
// Returns the scores of an evaluation, which must have been requested with its windows.
HeldoutScore HeldoutScoreOf(const v1::Evaluation& evaluation);
std::vector<DomainWeights> DomainWeightsOf(const v1::Evaluation& evaluation);

// Adds evaluations of the dataset to result->heldout. Sets result->routing from the first one with
// kSegment routing.
void AddEvaluations(const v1::EvaluationResult& evaluations, const std::string& dataset,
                    ArmResult* result);

// Returns the scores of one task, which must have been requested with its examples.
TaskScore TaskScoreOf(const v1::TaskResult& result, const std::string& scoring);

std::vector<ExpertMass> ExpertMassOf(const v1::ExpertActivity& activity);
// Returns ArmResult::changed_choices.
std::optional<double> ChangedChoicesOf(const v1::ExpertActivity& activity);
// Returns the choices for the prompts of the first task of the analysis.
std::vector<std::vector<double>> LayerChoicesOf(const v1::LayerAnalysis& analysis);

// Return nullptr if there is no such score.
const TaskScore* FindTaskScore(const ArmResult& result, const std::string& task,
                               const std::string& scoring);
const HeldoutScore* FindScore(const ArmResult& result, ScoredRouting routing,
                              int32_t first_positions, int32_t active_experts = 0,
                              const std::string& dataset = "");

}  // namespace braid

#endif  // BRAID_REPRODUCE_ARM_RESULT_H_
