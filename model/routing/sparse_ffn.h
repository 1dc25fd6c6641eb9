// Experts that each work on the rows they were given, and no others: the FFN of
// expert choice routing (arXiv 2202.09368, equation 2). Tensor code: private to
// trainer/model.
#ifndef BRAID_MODEL_ROUTING_SPARSE_FFN_H_
#define BRAID_MODEL_ROUTING_SPARSE_FFN_H_

#include <ATen/core/Tensor.h>

#include "model/kernels/soft_merge.h"

namespace braid {

//   y_t = sum over experts i that have t of  g_ti FFN_i(x_t)
//
// x [T, D], gates g [T, E], chosen [T, E] bool -> [T, D]. A row that no expert
// has gives zeros. Differentiable in x, gates (zero where not chosen) and both
// expert tensors. Work is that of the chosen pairs; an expert's sums are formed
// in a fixed order, so results have the same bits every time.
at::Tensor SparseFfn(const at::Tensor& x, const at::Tensor& gates, const at::Tensor& chosen,
                     const SoftExperts& experts);

}  // namespace braid

#endif  // BRAID_MODEL_ROUTING_SPARSE_FFN_H_
