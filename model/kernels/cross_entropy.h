// Cross entropy of an output head, computed for a chunk of tokens at a time, so that the logits of
// the whole batch [T, V] never exist together. The gradient is computed together with the loss.
#ifndef BRAID_MODEL_KERNELS_CROSS_ENTROPY_H_
#define BRAID_MODEL_KERNELS_CROSS_ENTROPY_H_

#include <ATen/core/Tensor.h>

namespace braid {

struct CrossEntropyResult {
  // scale * sum of the token losses; a scalar, differentiable in hidden and head.
  at::Tensor total;
  // [T] nats, 0 where ignored; without gradient.
  at::Tensor token_loss;
};

// Returns the losses of hidden [T, D] under head [V, D] for targets [T] int64; negative targets are
// ignored.
CrossEntropyResult CrossEntropy(const at::Tensor& hidden, const at::Tensor& head,
                                const at::Tensor& targets, double scale);

// Returns only token_loss [T], without gradient.
at::Tensor TokenLosses(const at::Tensor& hidden, const at::Tensor& head, const at::Tensor& targets);

}  // namespace braid

#endif  // BRAID_MODEL_KERNELS_CROSS_ENTROPY_H_
