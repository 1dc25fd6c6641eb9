// The FFN of GPT-2: two matrices with biases and GELU (arXiv 1606.08415) in its tanh approximation.
// Tensor code: private to model/.
#ifndef BRAID_MODEL_KERNELS_GELU_FFN_H_
#define BRAID_MODEL_KERNELS_GELU_FFN_H_

#include <ATen/core/Tensor.h>

#include "model/kernels/adapted_linear.h"
#include "model/kernels/ffn_dropout.h"

namespace braid {

// Returns x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))), element by element. Differentiable.
at::Tensor Gelu(const at::Tensor& x);

// The weights of the FFN of a dense layer.
struct GeluFfnWeights {
  at::Tensor up;         // [F, D]
  at::Tensor up_bias;    // [F]
  at::Tensor down;       // [F, D]
  at::Tensor down_bias;  // [D]
};

// Returns gelu(x up^T + up_bias) down + down_bias for x [T, D] -> [T, D]. Differentiable in x and
// all weights; any floating type. Dropout applies to the hidden values.
at::Tensor GeluFfn(const at::Tensor& x, const GeluFfnWeights& weights,
                   const FfnDropout& dropout = {});

// Returns the same with adapters of up and of down (see AdaptedLinear).
at::Tensor AdaptedGeluFfn(const at::Tensor& x, const GeluFfnWeights& weights,
                          const Adapters& up_adapters, const Adapters& down_adapters,
                          const InputDropout& input_dropout, const InputDropout& hidden_dropout);

}  // namespace braid

#endif  // BRAID_MODEL_KERNELS_GELU_FFN_H_
