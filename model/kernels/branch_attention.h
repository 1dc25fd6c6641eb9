// Attention of several continuations of one sequence, whose keys and values exist once.
#ifndef BRAID_MODEL_KERNELS_BRANCH_ATTENTION_H_
#define BRAID_MODEL_KERNELS_BRANCH_ATTENTION_H_

#include <ATen/core/Tensor.h>

#include "model/kernels/causal_attention.h"

namespace braid {

// C branches [C, H, T, hd] of a sequence with keys and values [H, P, hd] -> [C, T, H * hd].
// Query t of a branch sees all P positions and those of its own branch up to t. A block of
// queries at a time, all branches in one product with the shared keys. Not differentiable.
at::Tensor BranchAttend(const RotatedHeads& branches, const at::Tensor& keys,
                        const at::Tensor& values);

}  // namespace braid

#endif  // BRAID_MODEL_KERNELS_BRANCH_ATTENTION_H_
