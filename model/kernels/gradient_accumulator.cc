#include "model/kernels/gradient_accumulator.h"

#include <ATen/ATen.h>

namespace braid {

GradientAccumulator AccumulatorOf(const at::Tensor& weight) {
  if (weight.is_leaf() && weight.grad().defined() && weight.grad().is_contiguous()) {
    // Autograd visits the leaf's accumulator all the same, so GradientHooks still reports the leaf.
    return {weight.grad(), at::Tensor()};
  }
  const at::Tensor zeros = at::zeros_like(weight);
  return {zeros, zeros};
}

}  // namespace braid
