// Differentiable sums over the ranks of a batch. Tensor code: private to model/.
#ifndef BRAID_MODEL_RANK_SUM_FUNCTION_H_
#define BRAID_MODEL_RANK_SUM_FUNCTION_H_

#include <ATen/core/Tensor.h>

#include "model/config/rank_sum.h"

namespace braid {

// Returns the sum of x over ranks, in doubles on the device of x; `sum` gets a copy on the CPU. The
// loss is the sum of the losses of the ranks, so the gradient of x is the sum of the ranks'
// gradients: the backward pass calls `sum` too, which must live until then. An error of `sum`
// becomes an exception of the tensor library.
at::Tensor SumOverRanks(const at::Tensor& x, const RankSum& sum);

}  // namespace braid

#endif  // BRAID_MODEL_RANK_SUM_FUNCTION_H_
