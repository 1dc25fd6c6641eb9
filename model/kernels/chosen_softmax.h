// Weights of the experts that tokens have chosen.
#ifndef BRAID_MODEL_KERNELS_CHOSEN_SOFTMAX_H_
#define BRAID_MODEL_KERNELS_CHOSEN_SOFTMAX_H_

#include <ATen/core/Tensor.h>

namespace braid {

// Returns the softmax over each token's chosen scores, [T, k], for scores [T, N] and chosen [T, k]
// int32, whose elements are distinct experts in every row. Differentiable in the scores. In single
// precision on a CPU the rows are processed without intermediate tensors. A NaN among the chosen
// scores makes the weights of its token NaN.
at::Tensor ChosenSoftmax(const at::Tensor& scores, const at::Tensor& chosen);

}  // namespace braid

#endif  // BRAID_MODEL_KERNELS_CHOSEN_SOFTMAX_H_
