// The loss of a training pass: that of tokens, and the losses of gates, mixing layers and learned
// dropout. Tensor code: private to model/.
#ifndef BRAID_MODEL_TRAINING_LOSS_H_
#define BRAID_MODEL_TRAINING_LOSS_H_

#include <ATen/core/Tensor.h>

#include "braid/v1/model.pb.h"
#include "model/language_model.h"
#include "model/transformer.h"

namespace braid {

// What the losses depend on besides the tensors of a pass.
struct LossSettings {
  const v1::ModelConfig& config;
  double label_smoothing = 0;
  double gate_penalty = 0;  // LanguageModel::SetGatePenalty
};

struct TokenLoss {
  at::Tensor total;      // a scalar to differentiate: the sum over tokens times the scale
  at::Tensor of_tokens;  // [T]
};

// Returns the loss of targets [T], or the squared errors of `numbers` [T] if these are defined, of
// a pass over T tokens, or two passes over the same T tokens with a consistency loss. `head` is
// [V, D]. Sets result->divergence_sum.
TokenLoss TokenLossOf(const LossSettings& settings, const HiddenStates& states,
                      const at::Tensor& head, const at::Tensor& targets, const at::Tensor& numbers,
                      double scale, TrainResult* result);

// Returns whether the pass has losses that are not those of tokens.
bool HasSideLosses(const HiddenStates& states);

// Returns the losses that are not those of tokens, times `scale`: means over the passes, in which
// each sequence counts as often as it has counted tokens; counted [B, L]. Adds to
// result->balance_loss_sum and active_experts_sum.
at::Tensor SideLosses(const LossSettings& settings, const HiddenStates& states,
                      const at::Tensor& counted, double scale, TrainResult* result);

}  // namespace braid

#endif  // BRAID_MODEL_TRAINING_LOSS_H_
