// Attention of several continuations (branches) of one sequence, with one copy of the shared keys
// and values.
#ifndef BRAID_MODEL_KERNELS_BRANCH_ATTENTION_H_
#define BRAID_MODEL_KERNELS_BRANCH_ATTENTION_H_

#include <ATen/core/Tensor.h>

#include "model/kernels/causal_attention.h"

namespace braid {

// Returns the attention outputs of C branches, q [C, H, T, hd], k and v [C, Hkv, T, hd], of a
// sequence with keys and values [Hkv, P, hd]: [C, T, H * hd]. Query t of a branch sees all P shared
// positions and the positions of its own branch up to t. Works on a block of queries at a time; all
// branches share one product with the shared keys. first_visible [C, T] int32, where defined, is
// the first position that each query sees, shared positions counted first. Not differentiable.
at::Tensor BranchAttend(const RotatedHeads& branches, const at::Tensor& keys,
                        const at::Tensor& values, const at::Tensor& first_visible = {});

}  // namespace braid

#endif  // BRAID_MODEL_KERNELS_BRANCH_ATTENTION_H_
