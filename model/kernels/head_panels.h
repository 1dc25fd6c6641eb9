// An output head and its gradients for tokens in panels of 64 (token_panels.h). Tensor code:
// private to model/.
#ifndef BRAID_MODEL_KERNELS_HEAD_PANELS_H_
#define BRAID_MODEL_KERNELS_HEAD_PANELS_H_

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "absl/functional/function_ref.h"

namespace braid {

// Returns whether RunHeadPanels computes hidden [T, D] under head [V, D]: in single precision on a
// processor, and up to a width D of 128, from which on BLAS is as fast.
bool CanRunHeadPanels(const at::Tensor& hidden, const at::Tensor& head);

// Computes the logits of each token, lets `differentiate` replace them [V] by the gradient of the
// token's loss, and sets dhidden [T, D] to scale * gradients head. Unless it is undefined, adds
// scale * gradients^T hidden to dhead [V, D]. All are contiguous. Threads call `differentiate` at
// the same time. The logits of all tokens never exist together; bits do not depend on the number of
// threads.
void RunHeadPanels(const at::Tensor& hidden, const at::Tensor& head, double scale,
                   absl::FunctionRef<void(int64_t token, float* logits)> differentiate,
                   const at::Tensor& dhidden, const at::Tensor& dhead);

}  // namespace braid

#endif  // BRAID_MODEL_KERNELS_HEAD_PANELS_H_
