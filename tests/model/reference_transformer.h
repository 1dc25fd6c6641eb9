// The model by its equations, from elementary differentiable operations: whole score matrices, a
// loop over experts, no code shared with model/.
#ifndef BRAID_TESTS_MODEL_REFERENCE_TRANSFORMER_H_
#define BRAID_TESTS_MODEL_REFERENCE_TRANSFORMER_H_

#include <ATen/ATen.h>

#include <map>
#include <string>

#include "braid/v1/model.pb.h"

namespace braid {

// Returns causal softmax attention with RoPE (rotate half): qkv [B, L, 3D] -> [B, L, D].
at::Tensor ReferenceAttention(const at::Tensor& qkv, int64_t num_heads, double theta);

// Returns the sum of the token losses of tokens [B, L] against targets [B, L], routed as in
// training, with parameters by name. The last segment may be partial.
at::Tensor ReferenceLoss(const v1::ModelConfig& config,
                         const std::map<std::string, at::Tensor>& parameters,
                         const at::Tensor& tokens, const at::Tensor& targets);

}  // namespace braid

#endif  // BRAID_TESTS_MODEL_REFERENCE_TRANSFORMER_H_
