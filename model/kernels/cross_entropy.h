// Cross entropy of an output head, computed for a chunk of tokens at a time, so that the logits of
// the whole batch [T, V] never exist together. The gradient is computed together with the loss.
// Nothing is computed for tokens without a target, whose hidden states may be no numbers.
#ifndef BRAID_MODEL_KERNELS_CROSS_ENTROPY_H_
#define BRAID_MODEL_KERNELS_CROSS_ENTROPY_H_

#include <ATen/core/Tensor.h>

namespace braid {

// What an output head adds to the plain cross entropy of hidden head^T.
struct HeadLoss {
  // Bound c of the logits: c tanh(logit / c) (arXiv 2408.00118, section 2); 0 for none.
  double soft_cap = 0;
  // Coefficient of the z-loss, the squared log-sum-exp of a token's logits (arXiv 2204.02311,
  // section 5); part of `total` and its gradients, not of token_loss.
  double z_loss = 0;
  // Share e of the target distribution that is spread over the vocabulary (arXiv 1512.00567,
  // section 7): the loss of a token becomes (1 - e) times its cross entropy plus e times the mean
  // of -ln p over the vocabulary. Part of `total` and its gradients, not of token_loss.
  double label_smoothing = 0;
};

// Returns the logits [T, V] of hidden [T, D] under head [V, D].
at::Tensor HeadLogits(const at::Tensor& hidden, const at::Tensor& head, double soft_cap);

struct CrossEntropyResult {
  // scale * sum of the losses of HeadLoss; a scalar, differentiable in hidden and head.
  at::Tensor total;
  // [T] nats, 0 where ignored; without gradient.
  at::Tensor token_loss;
};

// Returns the losses of hidden [T, D] under head [V, D] for targets [T] int64; negative targets are
// ignored.
CrossEntropyResult CrossEntropy(const at::Tensor& hidden, const at::Tensor& head,
                                const at::Tensor& targets, double scale, const HeadLoss& loss = {});

struct ConsistencyResult {
  // scale * (sum of the token losses + c * sum of the divergences); a scalar, differentiable in
  // hidden and head.
  at::Tensor total;
  // [T] nats, the mean of both passes; 0 where ignored; without gradient.
  at::Tensor token_loss;
  // [T] nats: half the sum of both directions of the KL divergence of the two output
  // distributions; 0 where ignored; without gradient.
  at::Tensor divergence;
};

// Returns the losses of two passes over the same tokens (THOR, arXiv 2110.04260, section 3): hidden
// [2T, D], one pass after the other, under head [V, D] for targets [T] int64; negative targets are
// ignored. Computed for a chunk of tokens at a time, as CrossEntropy is.
ConsistencyResult ConsistencyCrossEntropy(const at::Tensor& hidden, const at::Tensor& head,
                                          const at::Tensor& targets, double scale, double c);

struct TokenScores {
  at::Tensor loss;  // [T] nats, 0 where ignored
  // [T] int32: the output with the highest logit, the first of equal ones; -1 where ignored.
  // Undefined unless asked for.
  at::Tensor highest;
};

// Returns the scores of hidden [T, D] under head [V, D] for targets [T] int64, without gradient;
// negative targets are ignored. Computed for a chunk of tokens at a time.
TokenScores ScoreTokens(const at::Tensor& hidden, const at::Tensor& head, const at::Tensor& targets,
                        double soft_cap = 0, bool want_highest = false);

// Returns the squared errors [T] of the outputs of hidden [T, D] under head [1, D], 0 where targets
// [T] int64 are negative; `numbers` [T] are right. Differentiable in hidden and head.
at::Tensor SquaredErrors(const at::Tensor& hidden, const at::Tensor& head,
                         const at::Tensor& targets, const at::Tensor& numbers);

}  // namespace braid

#endif  // BRAID_MODEL_KERNELS_CROSS_ENTROPY_H_
