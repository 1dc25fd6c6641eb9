// The fused FFN kernel as a differentiable function of tensors.
#ifndef BRAID_MODEL_KERNELS_FUSED_FFN_FUNCTION_H_
#define BRAID_MODEL_KERNELS_FUSED_FFN_FUNCTION_H_

#include <ATen/core/Tensor.h>

namespace braid {

// Whether FusedFfn works for activations like x: single precision, on a processor
// that the kernels can be generated for.
bool CanFuseFfn(const at::Tensor& x);

// x [T, D]; routing [N, E] with N dividing T, or undefined when dense; gate_up
// [2, E, F, D] or [2F, D]; down [E, F, D] or [F, D] -> [T, D]. Backward adds to the
// gradients of gate_up and down if they are leaves that have one (and then reports
// none to autograd), so that accumulation costs no pass of its own.
at::Tensor FusedFfn(const at::Tensor& x, const at::Tensor& routing, const at::Tensor& gate_up,
                    const at::Tensor& down);

}  // namespace braid

#endif  // BRAID_MODEL_KERNELS_FUSED_FFN_FUNCTION_H_
