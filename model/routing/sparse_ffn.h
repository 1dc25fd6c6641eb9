// The FFN of expert choice routing (arXiv 2202.09368, equation 2): each expert processes only the
// rows that it has chosen. Tensor code: private to model/.
#ifndef BRAID_MODEL_ROUTING_SPARSE_FFN_H_
#define BRAID_MODEL_ROUTING_SPARSE_FFN_H_

#include <ATen/core/Tensor.h>

#include "model/kernels/soft_merge.h"

namespace braid {

// Computes, for each row t,
//
//   y_t = sum over the experts i that chose t of  g_ti FFN_i(x_t)
//
// x [T, D], gates g [T, E], chosen [T, E] bool -> [T, D]. A row that no expert has chosen gives
// zeros. Differentiable in x, gates (zero where not chosen) and both expert tensors. The work is
// that of the chosen pairs; the sums of an expert are formed in a fixed order, so results are
// bit-identical across calls.
at::Tensor SparseFfn(const at::Tensor& x, const at::Tensor& gates, const at::Tensor& chosen,
                     const SoftExperts& experts);

}  // namespace braid

#endif  // BRAID_MODEL_ROUTING_SPARSE_FFN_H_
