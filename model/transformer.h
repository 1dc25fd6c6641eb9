// The decoder as tensor arithmetic: the full forward pass and its parts. Tensor code: private to
// model/. Works for any floating type and device.
//
// A layer updates the residual stream h [T, D], T = B * L:
//   h += attention(norm(h) Wqkv^T + bqkv) Wo^T + bo    (with RMSNorm of q and k heads if
//   configured) h += ffn(norm(h))      as decided by the layer's router (routing/router.h)
// The norms and biases are those of the family (proto Family).
// Layers that mix take a part of what other layers make of the same h (layer_mixing.h).
#ifndef BRAID_MODEL_TRANSFORMER_H_
#define BRAID_MODEL_TRANSFORMER_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "braid/v1/model.pb.h"
#include "model/config/merge_mode.h"
#include "model/kernels/adapted_linear.h"
#include "model/kernels/causal_attention.h"
#include "model/language_model.h"
#include "model/routing/routing_context.h"
#include "model/transformer_weights.h"

namespace braid {

// Returns rotary attention tables for every position up to sequence_length; those of a GPT2 rotate
// nothing.
AttentionTables TablesFor(const v1::ModelConfig& config, const at::TensorOptions& options);

// Returns the embedding of tokens [T] at positions [T], int64 both, with the noise of `weights`:
// [T, D].
at::Tensor EmbedTokens(const TransformerWeights& weights, const at::Tensor& tokens,
                       const at::Tensor& positions);

// Returns h + mixed Wo^T and the bias, the residual stream [T, D] after attention, for its output
// mixed [T, H hd].
at::Tensor AddAttention(const LayerWeights& weights, const at::Tensor& h, const at::Tensor& mixed,
                        const InputDropout& dropout = {});

// Returns queries, keys and values [T, (H + 2 Hkv) hd] of the residual stream h [T, D], as
// attention takes them, before rotation. `dropout` is that of the adapters' inputs.
at::Tensor ProjectQkv(const v1::ModelConfig& config, const LayerWeights& weights,
                      const at::Tensor& h, const InputDropout& dropout = {});

// Routing of one layer with experts: copies of the fields of RoutedFfn.
struct LayerRoutingTensor {
  int layer = 0;
  at::Tensor weights;  // [B, R, E]
  at::Tensor chosen;   // [B, L, k], TOKEN_CHOICE only
};

// The layers that the positions of one mixing layer chose.
struct LayerChoiceTensor {
  int layer = 0;
  at::Tensor chosen;  // [B * L, K] int32: layers of the model
};

struct HiddenStates {
  // [B * L, D], after the final norm; may be 0 where context.counted is.
  at::Tensor hidden;
  std::vector<LayerRoutingTensor> routing;
  std::vector<LayerChoiceTensor> choices;  // one per mixing layer that may take a second pass
  // [D] each, as RoutedFfn::input_sum: one per layer with experts, or none.
  std::vector<at::Tensor> input_sums;
  // [B], summed over layers; undefined without a balance loss or a penalty of gates.
  at::Tensor balance_loss;
  // [B], summed over layers; undefined without a balance loss of layers that mix.
  at::Tensor mixing_loss;
  // A scalar, summed over layers; undefined without learned rates of dropout.
  at::Tensor dropout_loss;
};

// Returns how often the positions that are 1 in `counted` [B, L] chose each layer.
std::vector<LayerChoiceCounts> CountChoices(const std::vector<LayerChoiceTensor>& choices,
                                            const at::Tensor& counted, int num_layers);

// Runs the forward pass of tokens [B, L] int64. The last segment may be partial. first_visible
// [B, L] int32, if defined, hides what is before it in addition to what the attention mask hides.
HiddenStates RunTransformer(const v1::ModelConfig& config, const TransformerWeights& weights,
                            const AttentionTables& tables, const at::Tensor& tokens, MergeMode mode,
                            RoutingContext context = {}, const at::Tensor& first_visible = {});

}  // namespace braid

#endif  // BRAID_MODEL_TRANSFORMER_H_
