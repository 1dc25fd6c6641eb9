#include "model/kernels/dense_ffn.h"

#include <ATen/ATen.h>

#include "model/kernels/fused_ffn_function.h"
#include "model/kernels/swiglu.h"

namespace braid {

at::Tensor DenseFfn(const at::Tensor& x, const at::Tensor& gate_up, const at::Tensor& down) {
  if (CanFuseFfn(x)) return FusedFfn(x, at::Tensor(), gate_up, down);
  return at::mm(SwiGlu(at::mm(x, gate_up.t())), down);
}

}  // namespace braid
