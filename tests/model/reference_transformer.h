// The model by its equations, from elementary differentiable operations: whole score matrices, a
// loop over experts, no code shared with model/.
#ifndef BRAID_TESTS_MODEL_REFERENCE_TRANSFORMER_H_
#define BRAID_TESTS_MODEL_REFERENCE_TRANSFORMER_H_

#include <ATen/ATen.h>

#include <map>
#include <string>

#include "braid/v1/model.pb.h"

namespace braid {

struct ReferenceRope {
  double theta = 10000;
  v1::RopeScaling scaling = {};
  bool none = false;  // positions are learned
};

// Returns the frequency of pair j of a head, scaled as Hugging Face's modeling_rope_utils does.
double ReferenceFrequency(int64_t j, int64_t head_width, const ReferenceRope& rope);

// Returns causal softmax attention with RoPE (rotate half), in which every key and value head is
// repeated for the query heads of its group: qkv [B, L, (H + 2 Hkv) hd] -> [B, L, H hd]. Queries do
// not see the keys that are true in hidden [B, 1, L, L], if it is defined.
at::Tensor ReferenceAttention(const at::Tensor& qkv, int64_t num_heads, int64_t num_key_heads,
                              const ReferenceRope& rope, const at::Tensor& hidden = {});

// Returns the sum of the token losses of tokens [B, L] against targets [B, L], routed as in
// training, with parameters by name. The last segment may be partial.
at::Tensor ReferenceLoss(const v1::ModelConfig& config,
                         const std::map<std::string, at::Tensor>& parameters,
                         const at::Tensor& tokens, const at::Tensor& targets);

}  // namespace braid

#endif  // BRAID_TESTS_MODEL_REFERENCE_TRANSFORMER_H_
