// The model as its equations read, from elementary differentiable operations:
// whole score matrices, a loop over experts, no shared code with trainer/.
#ifndef BRAID_TESTS_MODEL_REFERENCE_TRANSFORMER_H_
#define BRAID_TESTS_MODEL_REFERENCE_TRANSFORMER_H_

#include <ATen/ATen.h>

#include <map>
#include <string>

#include "braid/v1/model.pb.h"

namespace braid {

// qkv [B, L, 3D] -> [B, L, D]: RoPE (rotate half), causal softmax attention.
at::Tensor ReferenceAttention(const at::Tensor& qkv, int64_t num_heads, double theta);

// Sum of the token losses of tokens [B, L] against targets [B, L], routed as in
// training; parameters by name. The last segment may be partial.
at::Tensor ReferenceLoss(const v1::ModelConfig& config,
                         const std::map<std::string, at::Tensor>& parameters,
                         const at::Tensor& tokens, const at::Tensor& targets);

}  // namespace braid

#endif  // BRAID_TESTS_MODEL_REFERENCE_TRANSFORMER_H_
