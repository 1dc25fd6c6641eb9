// The fused FFN kernel as a differentiable function of tensors.
#ifndef BRAID_MODEL_KERNELS_FUSED_FFN_FUNCTION_H_
#define BRAID_MODEL_KERNELS_FUSED_FFN_FUNCTION_H_

#include <ATen/core/Tensor.h>

#include "model/kernels/ffn_dropout.h"

namespace braid {

// Returns whether FusedFfn supports activations like x: single precision, on a CPU for which
// kernels can be generated.
bool CanFuseFfn(const at::Tensor& x);

// Computes the fused FFN of x [T, D]; routing [N, E] with N dividing T, or undefined when dense;
// gate_up [2, E, F, D] or [2F, D]; down [E, F, D] or [F, D] -> [T, D]. If gate_up or down is a leaf
// with an existing gradient, backward adds to that gradient in place and reports no gradient to
// autograd, so that gradient accumulation needs no extra pass over memory. Differentiable in the
// logit of dropout too.
at::Tensor FusedFfn(const at::Tensor& x, const at::Tensor& routing, const at::Tensor& gate_up,
                    const at::Tensor& down, const FfnDropout& dropout = {});

}  // namespace braid

#endif  // BRAID_MODEL_KERNELS_FUSED_FFN_FUNCTION_H_
