// The decoder as tensor arithmetic: bound weights and the full forward pass. Tensor code: private
// to model/. Works for any floating type and device.
//
// A layer updates the residual stream h [T, D], T = B * L:
//   h += attention(RmsNorm(h) Wqkv^T) Wo^T
//   h += ffn(RmsNorm(h))      as decided by the layer's router (routing/router.h)
#ifndef BRAID_MODEL_TRANSFORMER_H_
#define BRAID_MODEL_TRANSFORMER_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "braid/v1/model.pb.h"
#include "model/config/merge_mode.h"
#include "model/kernels/causal_attention.h"
#include "model/routing/ffn_weights.h"
#include "model/routing/routing_context.h"

namespace braid {

struct LayerWeights {
  at::Tensor attention_norm;    // [D]
  at::Tensor qkv;               // [3D, D]
  at::Tensor attention_output;  // [D, D]
  at::Tensor ffn_norm;          // [D]
  FfnWeights ffn;
};

struct TransformerWeights {
  at::Tensor embedding;  // [V, D]
  std::vector<LayerWeights> layers;
  at::Tensor final_norm;  // [D]
  at::Tensor head;        // [V, D]; the embedding itself when tied
};

// Returns views of a flat array in ParameterLayout order. When `gradients` (same layout) is
// defined, the views are autograd leaves whose gradients accumulate in it.
TransformerWeights BindWeights(const v1::ModelConfig& config, const at::Tensor& values,
                               const at::Tensor& gradients);

// Returns rotary attention tables for every position up to sequence_length.
AttentionTables TablesFor(const v1::ModelConfig& config, const at::TensorOptions& options);

// Routing of one layer with experts: copies of the fields of RoutedFfn.
struct LayerRoutingTensor {
  int layer = 0;
  at::Tensor weights;  // [B, R, E]
  at::Tensor chosen;   // [B, L, k], TOKEN_CHOICE only
};

struct HiddenStates {
  at::Tensor hidden;  // [B * L, D], after the final norm
  std::vector<LayerRoutingTensor> routing;
  // [B], summed over layers; undefined without a balance loss.
  at::Tensor balance_loss;
};

// Runs the forward pass of tokens [B, L] int64. The last segment may be partial.
HiddenStates RunTransformer(const v1::ModelConfig& config, const TransformerWeights& weights,
                            const AttentionTables& tables, const at::Tensor& tokens, MergeMode mode,
                            RoutingContext context = {});

}  // namespace braid

#endif  // BRAID_MODEL_TRANSFORMER_H_
