// The norms of the two families of models. Tensor code: private to model/.
#ifndef BRAID_MODEL_KERNELS_LAYER_NORM_H_
#define BRAID_MODEL_KERNELS_LAYER_NORM_H_

#include <ATen/core/Tensor.h>

namespace braid {

// The parameters of a norm of rows of width D.
struct NormWeights {
  at::Tensor weight;  // [D]
  at::Tensor bias;    // [D]; undefined for RMSNorm
};

// Returns the normalized rows of x [T, D] -> [T, D]: LayerNorm (arXiv 1607.06450) with a bias,
// RmsNorm without. Differentiable in x and the weights.
at::Tensor Normalize(const at::Tensor& x, const NormWeights& weights, double epsilon);

}  // namespace braid

#endif  // BRAID_MODEL_KERNELS_LAYER_NORM_H_
