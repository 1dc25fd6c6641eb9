// A linear layer of many tokens: y = x W^T + added. Tensor code: private to model/.
#ifndef BRAID_MODEL_KERNELS_LINEAR_H_
#define BRAID_MODEL_KERNELS_LINEAR_H_

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace braid {

// Returns y [T, out] for x [T, in], W [out, in], and `added` [out], [T, out] or undefined.
// Differentiable in all three. In single precision on a processor, at least 64 tokens are
// multiplied with a contiguous matrix of up to 2^17 elements in panels of 64 (token_panels.h),
// because BLAS spends much of its time on copies of operands that small; Product computes all
// others.
at::Tensor Linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& added);

// Returns dy W, the gradient of x, for dy [T, out]; without gradient itself.
at::Tensor LinearInputGradient(const at::Tensor& dy, const at::Tensor& weight);

// Returns the gradient of `added` with that many dimensions, for dy [T, out]: its sum over tokens,
// or dy itself; undefined for 0 dimensions, where nothing needs it.
at::Tensor AddedGradient(const at::Tensor& dy, int64_t dimensions);

}  // namespace braid

#endif  // BRAID_MODEL_KERNELS_LINEAR_H_
