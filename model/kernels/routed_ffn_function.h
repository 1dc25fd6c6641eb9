// The routed FFN kernel as a differentiable function of tensors. Tensor code: private to model/.
#ifndef BRAID_MODEL_KERNELS_ROUTED_FFN_FUNCTION_H_
#define BRAID_MODEL_KERNELS_ROUTED_FFN_FUNCTION_H_

#include <ATen/core/Tensor.h>

#include "model/kernels/ffn_dropout.h"
#include "model/kernels/soft_merge.h"

namespace braid {

// Computes y_t = sum_j weights_tj FFN_chosen_tj(x_t) for x [T, D], chosen [T, k] int32 with
// ascending rows and -1 for absent pairs, weights [T, k] or undefined for 1 -> [T, D]. Requires
// CanFuseFfn(x). Differentiable in x, weights, both expert tensors and the logit of dropout; the
// backward pass leaves out what requires no gradient. If an expert tensor is a leaf with an
// existing gradient, backward adds to that gradient in place.
at::Tensor FusedRoutedFfn(const at::Tensor& x, const at::Tensor& chosen, const at::Tensor& weights,
                          const SoftExperts& experts, const FfnDropout& dropout = {});

}  // namespace braid

#endif  // BRAID_MODEL_KERNELS_ROUTED_FFN_FUNCTION_H_
