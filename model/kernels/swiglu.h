// The gated activation of a SwiGLU FFN (arXiv 2002.05202): a = silu(g) * u, where a row of the
// input holds [g, u].
#ifndef BRAID_MODEL_KERNELS_SWIGLU_H_
#define BRAID_MODEL_KERNELS_SWIGLU_H_

#include <ATen/core/Tensor.h>

namespace braid {

// Returns the activation [..., F] of gate_up [..., 2F]. Not differentiable; see SwiGlu.
at::Tensor SwiGluForward(const at::Tensor& gate_up);

struct SwiGluGradients {
  // [..., 2F]: the gradient of [g, u].
  at::Tensor gate_up;
  // [..., F]: the recomputed activation.
  at::Tensor activation;
};

// Returns the gradient of SwiGluForward for the incoming gradient [..., F].
SwiGluGradients SwiGluBackward(const at::Tensor& gate_up, const at::Tensor& gradient);

// Returns the activation as SwiGluForward does, differentiably.
at::Tensor SwiGlu(const at::Tensor& gate_up);

}  // namespace braid

#endif  // BRAID_MODEL_KERNELS_SWIGLU_H_
