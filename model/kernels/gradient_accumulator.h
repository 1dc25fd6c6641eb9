// Where a kernel's backward pass adds the gradient of a weight. Tensor code: private to model/.
#ifndef BRAID_MODEL_KERNELS_GRADIENT_ACCUMULATOR_H_
#define BRAID_MODEL_KERNELS_GRADIENT_ACCUMULATOR_H_

#include <ATen/core/Tensor.h>

namespace braid {

struct GradientAccumulator {
  // Receives the sum.
  at::Tensor buffer;
  // The gradient to report to autograd; undefined when the buffer is the leaf's own gradient, so
  // that gradient accumulation needs no extra pass over memory.
  at::Tensor report;
};

// Returns the gradient of `weight` itself when it is a leaf with an existing, contiguous gradient,
// and otherwise a new tensor of zeros.
GradientAccumulator AccumulatorOf(const at::Tensor& weight);

}  // namespace braid

#endif  // BRAID_MODEL_KERNELS_GRADIENT_ACCUMULATOR_H_
