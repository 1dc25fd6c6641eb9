// RMSNorm (arXiv 1910.07467): y = w * x / sqrt(mean(x^2) + epsilon).
#ifndef BRAID_MODEL_KERNELS_RMS_NORM_H_
#define BRAID_MODEL_KERNELS_RMS_NORM_H_

#include <ATen/core/Tensor.h>

namespace braid {

// Returns the normalized rows of x [T, D] with weight [D] -> [T, D]. Differentiable in both.
at::Tensor RmsNorm(const at::Tensor& x, const at::Tensor& weight, double epsilon);

}  // namespace braid

#endif  // BRAID_MODEL_KERNELS_RMS_NORM_H_
