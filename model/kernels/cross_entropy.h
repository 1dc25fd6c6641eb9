// Cross entropy of an output head, a chunk of tokens at a time: the logits of
// the whole batch never exist together. The gradient is computed with the loss.
#ifndef BRAID_MODEL_KERNELS_CROSS_ENTROPY_H_
#define BRAID_MODEL_KERNELS_CROSS_ENTROPY_H_

#include <ATen/core/Tensor.h>

namespace braid {

struct CrossEntropyResult {
  // scale * sum of the token losses; [] and differentiable in hidden and head.
  at::Tensor total;
  // [T] nats, 0 where ignored; no gradient.
  at::Tensor token_loss;
};

// hidden [T, D], head [V, D], targets [T] int64 with negative ones ignored.
CrossEntropyResult CrossEntropy(const at::Tensor& hidden, const at::Tensor& head,
                                const at::Tensor& targets, double scale);

// Only token_loss [T].
at::Tensor TokenLosses(const at::Tensor& hidden, const at::Tensor& head, const at::Tensor& targets);

}  // namespace braid

#endif  // BRAID_MODEL_KERNELS_CROSS_ENTROPY_H_
