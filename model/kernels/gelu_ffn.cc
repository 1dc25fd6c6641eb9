#include "model/kernels/gelu_ffn.h"

#include <ATen/ATen.h>

#include "model/kernels/phase_times.h"
#include "model/kernels/product.h"

namespace braid {

at::Tensor Gelu(const at::Tensor& x) { return at::gelu(x, "tanh"); }

at::Tensor GeluFfn(const at::Tensor& x, const GeluFfnWeights& weights, const FfnDropout& dropout) {
  const ScopedPhase phase(Phase::kFfn);
  at::Tensor hidden = Gelu(AddProduct(weights.up_bias, x, weights.up.t()));
  if (dropout.drops()) {
    hidden = hidden * DropoutFactors(dropout, weights.down.size(0), x.options());
  }
  return AddProduct(weights.down_bias, hidden, weights.down);
}

at::Tensor AdaptedGeluFfn(const at::Tensor& x, const GeluFfnWeights& weights,
                          const Adapters& up_adapters, const Adapters& down_adapters,
                          const InputDropout& input_dropout, const InputDropout& hidden_dropout) {
  const at::Tensor hidden =
      Gelu(AdaptedLinear(x, weights.up, weights.up_bias, up_adapters, input_dropout));
  return AdaptedLinear(hidden, weights.down.t(), weights.down_bias, down_adapters, hidden_dropout);
}

}  // namespace braid
