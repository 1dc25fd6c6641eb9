// The soft-MoE FFN by its definition: a loop over experts.
#ifndef BRAID_TESTS_MODEL_KERNELS_SOFT_MERGE_REFERENCE_H_
#define BRAID_TESTS_MODEL_KERNELS_SOFT_MERGE_REFERENCE_H_

#include <ATen/ATen.h>

namespace braid {

// x [N, S, D], routing [N, E], gate_up [2, E, F, D], down [E, F, D] -> [N, S, D].
at::Tensor SoftMergeReference(const at::Tensor& x, const at::Tensor& routing,
                              const at::Tensor& gate_up, const at::Tensor& down);

}  // namespace braid

#endif  // BRAID_TESTS_MODEL_KERNELS_SOFT_MERGE_REFERENCE_H_
