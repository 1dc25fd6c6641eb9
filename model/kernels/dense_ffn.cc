#include "model/kernels/dense_ffn.h"

#include <ATen/ATen.h>

#include "model/kernels/fused_ffn_function.h"
#include "model/kernels/swiglu.h"

namespace braid {

at::Tensor DenseFfn(const at::Tensor& x, const at::Tensor& gate_up, const at::Tensor& down,
                    const FfnDropout& dropout) {
  if (CanFuseFfn(x)) return FusedFfn(x, at::Tensor(), gate_up, down, dropout);
  at::Tensor hidden = SwiGlu(at::mm(x, gate_up.t()));
  if (dropout.drops()) hidden = hidden * DropoutFactors(dropout, down.size(0), x.options());
  return at::mm(hidden, down);
}

}  // namespace braid
