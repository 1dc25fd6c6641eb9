#include "reproduce/arm_result.h"

#include <algorithm>

#include "braid/v1/analysis.pb.h"

namespace braid {
namespace {

WindowLoss WindowLossOf(const v1::WindowScore& score) {
  WindowLoss window;
  window.later_loss = score.loss_after_first_segment();
  window.later_tokens = score.num_tokens_after_first_segment();
  window.first_loss = score.loss() - window.later_loss;
  window.first_tokens = score.num_tokens() - window.later_tokens;
  return window;
}

}  // namespace

ScoredRouting ScoredRoutingOf(const v1::Evaluation& evaluation) {
  switch (evaluation.fixed_weights()) {
    case v1::AVERAGE_WEIGHTS:
      return ScoredRouting::kAverage;
    case v1::UNIFORM_WEIGHTS:
      return ScoredRouting::kUniform;
    case v1::NEXT_DOMAIN_WEIGHTS:
      return ScoredRouting::kOtherDomain;
    default:
      return evaluation.routing() == v1::PROMPT_ROUTING ? ScoredRouting::kPrompt
                                                        : ScoredRouting::kSegment;
  }
}

HeldoutScore HeldoutScoreOf(const v1::Evaluation& evaluation) {
  HeldoutScore score{.routing = ScoredRoutingOf(evaluation),
                     .first_positions = evaluation.first_segment_length(),
                     .active_experts = evaluation.active_experts()};
  for (const v1::DomainEvaluation& domain : evaluation.domains()) {
    DomainWindows& windows = score.domains.emplace_back();
    windows.domain = domain.domain();
    for (const v1::WindowScore& window : domain.windows()) {
      windows.windows.push_back(WindowLossOf(window));
    }
  }
  return score;
}

std::vector<DomainWeights> DomainWeightsOf(const v1::Evaluation& evaluation) {
  std::vector<DomainWeights> all;
  for (const v1::DomainEvaluation& domain : evaluation.domains()) {
    if (domain.routing().empty()) continue;
    DomainWeights& weights = all.emplace_back();
    weights.domain = domain.domain();
    for (const v1::LayerWeights& layer : domain.routing()) {
      weights.layers.emplace_back(layer.weights().begin(), layer.weights().end());
    }
  }
  return all;
}

void AddEvaluations(const v1::EvaluationResult& evaluations, const std::string& dataset,
                    ArmResult* result) {
  for (const v1::Evaluation& evaluation : evaluations.evaluations()) {
    result->heldout.push_back(HeldoutScoreOf(evaluation));
    result->heldout.back().dataset = dataset;
    if (ScoredRoutingOf(evaluation) != ScoredRouting::kSegment) continue;
    if (result->routing.empty()) result->routing = DomainWeightsOf(evaluation);
  }
}

TaskScore TaskScoreOf(const v1::TaskResult& result, const std::string& scoring) {
  TaskScore score{.task = result.task(), .scoring = scoring};
  for (const v1::TaskExample& example : result.examples()) {
    score.answer_losses.push_back(example.answer_loss());
    if (example.has_score()) score.figures.push_back(example.score());
  }
  for (const v1::TaskMetric& metric : result.metrics())
    score.metrics[metric.name()] = metric.value();
  return score;
}

std::vector<ExpertMass> ExpertMassOf(const v1::ExpertActivity& activity) {
  std::vector<ExpertMass> layers;
  for (const v1::LayerExpertActivity& layer : activity.layers()) {
    layers.push_back({.chosen = layer.mass_share(), .random = layer.random_mass_share()});
  }
  return layers;
}

std::optional<double> ChangedChoicesOf(const v1::ExpertActivity& activity) {
  double sum = 0, count = 0;
  for (const v1::ChoiceDrift& drift : activity.drift()) {
    if (drift.from_step() != 0 || drift.to_step() != activity.step()) continue;
    sum += drift.changed_share();
    ++count;
  }
  if (count == 0) return std::nullopt;
  return sum / count;
}

std::vector<std::vector<double>> LayerChoicesOf(const v1::LayerAnalysis& analysis) {
  std::vector<std::vector<double>> layers;
  if (analysis.choices().empty()) return layers;
  for (const v1::LayerChoices& layer : analysis.choices(0).layers()) {
    layers.emplace_back(layer.shares().begin(), layer.shares().end());
  }
  return layers;
}

const TaskScore* FindTaskScore(const ArmResult& result, const std::string& task,
                               const std::string& scoring) {
  const auto found = std::ranges::find_if(result.tasks, [&](const TaskScore& score) {
    return score.task == task && score.scoring == scoring;
  });
  return found == result.tasks.end() ? nullptr : &*found;
}

const HeldoutScore* FindScore(const ArmResult& result, ScoredRouting routing,
                              int32_t first_positions, int32_t active_experts,
                              const std::string& dataset) {
  const auto found = std::ranges::find_if(result.heldout, [&](const HeldoutScore& score) {
    return score.routing == routing && score.first_positions == first_positions &&
           score.active_experts == active_experts && score.dataset == dataset;
  });
  return found == result.heldout.end() ? nullptr : &*found;
}

}  // namespace braid
