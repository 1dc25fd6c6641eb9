// The SwiGLU FFN of a dense layer.
#ifndef BRAID_MODEL_KERNELS_DENSE_FFN_H_
#define BRAID_MODEL_KERNELS_DENSE_FFN_H_

#include <ATen/core/Tensor.h>

#include "model/kernels/ffn_dropout.h"

namespace braid {

// Returns (silu(x G^T) * (x U^T)) down for x [T, D], gate_up [2F, D] (G, then U) and down [F, D] ->
// [T, D]. Differentiable in all three; any floating type. If a weight is a leaf with an existing
// gradient, backward adds to that gradient in place. Dropout applies to the hidden values.
at::Tensor DenseFfn(const at::Tensor& x, const at::Tensor& gate_up, const at::Tensor& down,
                    const FfnDropout& dropout = {});

}  // namespace braid

#endif  // BRAID_MODEL_KERNELS_DENSE_FFN_H_
