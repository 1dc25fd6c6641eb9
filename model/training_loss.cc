#include "model/training_loss.h"

#include <ATen/ATen.h>

#include "model/config/model_config.h"
#include "model/kernels/cross_entropy.h"

namespace braid {
namespace {

// The penalty of the gate RELU is a mean over layers, the balance loss a sum.
double GateLossCoefficient(const LossSettings& settings) {
  if (settings.config.routing().token().gate() != v1::TokenRouting::RELU) {
    return settings.config.routing().token().balance_loss();
  }
  return settings.gate_penalty / static_cast<double>(MoeLayers(settings.config).size());
}

}  // namespace

TokenLoss TokenLossOf(const LossSettings& settings, const HiddenStates& states,
                      const at::Tensor& head, const at::Tensor& targets, const at::Tensor& numbers,
                      double scale, TrainResult* result) {
  if (numbers.defined()) {
    const at::Tensor errors = SquaredErrors(states.hidden, head, targets, numbers);
    return {errors.sum() * scale, errors};
  }
  if (settings.config.consistency_loss() == 0) {
    const CrossEntropyResult loss = CrossEntropy(states.hidden, head, targets, scale,
                                                 {.soft_cap = settings.config.logit_soft_cap(),
                                                  .z_loss = settings.config.z_loss(),
                                                  .label_smoothing = settings.label_smoothing});
    return {loss.total, loss.token_loss};
  }
  const ConsistencyResult loss = ConsistencyCrossEntropy(states.hidden, head, targets, scale,
                                                         settings.config.consistency_loss());
  result->divergence_sum = loss.divergence.sum(at::kDouble).item<double>();
  return {loss.total, loss.token_loss};
}

bool HasSideLosses(const HiddenStates& states) {
  return states.balance_loss.defined() || states.dropout_loss.defined() ||
         states.mixing_loss.defined();
}

at::Tensor SideLosses(const LossSettings& settings, const HiddenStates& states,
                      const at::Tensor& counted, double scale, TrainResult* result) {
  at::Tensor total = at::zeros({}, states.hidden.options());
  if (states.dropout_loss.defined()) total = total + states.dropout_loss * counted.sum() * scale;
  // Returns the mean over the passes of a loss [B] of sequences, weighed by their tokens.
  const auto weighed = [&](const at::Tensor& loss) {
    const at::Tensor sum = (loss.view({-1, counted.size(0)}).mean(0) * counted.sum(1)).sum();
    result->balance_loss_sum += sum.item<double>();
    return sum;
  };
  if (states.mixing_loss.defined()) {
    const double coefficient = settings.config.layer_mixing().balance_loss();
    total = total + weighed(states.mixing_loss) * (scale * coefficient);
  }
  if (!states.balance_loss.defined()) return total;
  const at::Tensor balance = weighed(states.balance_loss);
  if (settings.config.routing().token().gate() == v1::TokenRouting::RELU) {
    for (const LayerRoutingTensor& layer : states.routing) {
      const at::Tensor used = layer.chosen.narrow(0, 0, counted.size(0)).ge(0).sum(2);
      result->active_experts_sum += (used * counted).sum(at::kDouble).item<double>();
    }
  }
  return total + balance * (scale * GateLossCoefficient(settings));
}

}  // namespace braid
