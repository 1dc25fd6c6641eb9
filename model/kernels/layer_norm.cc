#include "model/kernels/layer_norm.h"

#include <ATen/ATen.h>

#include "model/kernels/rms_norm.h"

namespace braid {

at::Tensor Normalize(const at::Tensor& x, const NormWeights& weights, double epsilon) {
  if (!weights.bias.defined()) return RmsNorm(x, weights.weight, epsilon);
  return at::layer_norm(x, {x.size(1)}, weights.weight, weights.bias, epsilon);
}

}  // namespace braid
