#include "cli/reproduce/arm_result.h"

#include <algorithm>

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

HeldoutScore HeldoutScoreOf(const v1::Evaluation& evaluation, ScoredRouting routing,
                            int32_t first_positions) {
  HeldoutScore score{.routing = routing, .first_positions = first_positions};
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

const HeldoutScore* FindScore(const ArmResult& result, ScoredRouting routing,
                              int32_t first_positions) {
  const auto found = std::ranges::find_if(result.heldout, [&](const HeldoutScore& score) {
    return score.routing == routing && score.first_positions == first_positions;
  });
  return found == result.heldout.end() ? nullptr : &*found;
}

}  // namespace braid
