#include "model/kernels/cross_entropy.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>

#include "model/kernels/head_chunks.h"
#include "model/kernels/head_panels.h"
#include "model/kernels/phase_times.h"
#include "model/kernels/product.h"
#include "model/kernels/task_grain.h"
#include "model/kernels/vector_kernels.h"

namespace braid {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// The tokens that have a target. The outputs of the others are not computed, and what their hidden
// states hold, which may be no numbers, has no influence.
class CountedTokens {
 public:
  explicit CountedTokens(const at::Tensor& targets)
      : rows_(targets.ge(0).nonzero().flatten()), num_tokens_(targets.size(0)) {}

  // Returns the rows of x [T, ...] of these tokens.
  at::Tensor Of(const at::Tensor& x) const { return all() ? x : x.index_select(0, rows_); }

  // As Of, for two passes [2T, D], one after the other.
  at::Tensor OfBoth(const at::Tensor& x) const {
    return all() ? x
                 : at::cat({Of(x.narrow(0, 0, num_tokens_)),
                            Of(x.narrow(0, num_tokens_, num_tokens_))});
  }

  // Returns values [n] of these tokens as values [T] of all tokens, `other` for the others.
  at::Tensor Spread(const at::Tensor& values, double other = 0) const {
    if (all()) return values;
    return at::full({num_tokens_}, other, values.options()).index_copy(0, rows_, values);
  }

 private:
  bool all() const { return rows_.size(0) == num_tokens_; }

  at::Tensor rows_;  // [n] int64
  int64_t num_tokens_;
};

bool IsSinglePrecision(const at::Tensor& logits) {
  return logits.device().is_cpu() && logits.scalar_type() == at::kFloat;
}

// The losses of the tokens of a chunk, [n]: cross entropies, squared log-sum-exps, and what label
// smoothing e adds, e (logit - mean logit).
struct ChunkLosses {
  at::Tensor token, squared, smoothing;

  ChunkLosses Narrow(int64_t start, int64_t n) const {
    return {token.narrow(0, start, n), squared.narrow(0, start, n), smoothing.narrow(0, start, n)};
  }
};

double MeanOf(const float* row, int64_t size) {
  double sum = 0;
  for (int64_t j = 0; j < size; ++j) sum += row[j];
  return sum / static_cast<double>(size);
}

// Replaces the logits [V] of token i by the gradient of its loss and fills `losses`, in one pass
// (two with a z-loss, two more with label smoothing e). With s = log-sum-exp and p = softmax,
// ds/dlogits = p, so the gradient is p - (1 - e) one hot - e / V + 2 z s p.
void DifferentiateRow(float* row, int64_t v, int64_t target, const HeadLoss& asked, int64_t i,
                      const ChunkLosses& losses) {
  const double smoothing = asked.label_smoothing;
  // Whatever the losses need of the logits is read before softmax_row overwrites them.
  const float logit = row[target];
  losses.smoothing.data_ptr<float>()[i] =
      smoothing == 0 ? 0 : static_cast<float>(smoothing * (logit - MeanOf(row, v)));
  const float log_sum = Vector().softmax_row(row, v);
  if (asked.z_loss != 0) {
    const float factor = 1 + static_cast<float>(2 * asked.z_loss) * log_sum;
    for (int64_t j = 0; j < v; ++j) row[j] *= factor;
  }
  if (smoothing != 0) {
    const auto share = static_cast<float>(smoothing / static_cast<double>(v));
    for (int64_t j = 0; j < v; ++j) row[j] -= share;
  }
  row[target] -= static_cast<float>(1 - smoothing);
  losses.token.data_ptr<float>()[i] = log_sum - logit;
  losses.squared.data_ptr<float>()[i] = log_sum * log_sum;
}

void DifferentiateRows(const at::Tensor& logits, const at::Tensor& targets, const HeadLoss& asked,
                       const ChunkLosses& losses) {
  const int64_t v = logits.size(1);
  float* const values = logits.data_ptr<float>();
  const int64_t* const target = targets.data_ptr<int64_t>();
  at::parallel_for(0, logits.size(0), GrainOf(kTaskElements, v), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      DifferentiateRow(values + i * v, v, target[i], asked, i, losses);
    }
  });
}

at::Tensor LossesOf(const at::Tensor& log_probabilities, const at::Tensor& targets) {
  return log_probabilities.gather(1, targets.unsqueeze(1)).neg_().squeeze(1);
}

// Returns d loss / d logits [n, V], which may use the memory of the logits; fills `losses`.
at::Tensor LogitGradients(at::Tensor logits, const at::Tensor& targets, const HeadLoss& asked,
                          const ChunkLosses& losses) {
  if (IsSinglePrecision(logits)) {
    DifferentiateRows(logits, targets, asked, losses);
    return logits;
  }
  const double smoothing = asked.label_smoothing;
  const at::Tensor index = targets.unsqueeze(1);
  const at::Tensor above = logits.gather(1, index) - logits.mean(1, /*keepdim=*/true);
  losses.smoothing.copy_((above * smoothing).squeeze(1));
  at::Tensor p = at::log_softmax(logits, 1);
  losses.token.copy_(LossesOf(p, targets));
  // logit - log p is the log-sum-exp in every column, so one column is enough.
  const at::Tensor log_sum = logits.narrow(1, 0, 1) - p.narrow(1, 0, 1);
  losses.squared.copy_(log_sum.square().squeeze(1));
  p.exp_();
  if (asked.z_loss != 0) p.mul_(1 + 2 * asked.z_loss * log_sum);
  p.sub_(smoothing / static_cast<double>(p.size(1)));
  return p.scatter_add_(1, index, at::full_like(index, smoothing - 1, p.options()));
}

// As LogitGradients, for the logits before their soft cap: y = c tanh(x / c) has the derivative
// 1 - (y / c)^2.
at::Tensor CappedGradients(at::Tensor logits, const at::Tensor& targets, const HeadLoss& loss,
                           const ChunkLosses& losses) {
  if (loss.soft_cap == 0) return LogitGradients(logits, targets, loss, losses);
  at::Tensor squashed = logits.div_(loss.soft_cap).tanh_();
  // A new tensor: LogitGradients may overwrite it, and the derivative needs `squashed` afterwards.
  const at::Tensor gradient = LogitGradients(squashed * loss.soft_cap, targets, loss, losses);
  return gradient.mul_(squashed.square_().neg_().add_(1));
}

// Fills `losses`, sets dhidden [T, D] and, unless it is undefined, adds to dhead [V, D], for a
// chunk of tokens at a time.
void RunChunks(const at::Tensor& hidden, const at::Tensor& head, const at::Tensor& targets,
               double scale, const HeadLoss& loss, const ChunkLosses& losses,
               const at::Tensor& dhidden, const at::Tensor& dhead) {
  const int64_t rows = HeadChunkTokens(head.size(0));
  for (int64_t start = 0; start < hidden.size(0); start += rows) {
    const int64_t n = std::min(rows, hidden.size(0) - start);
    const at::Tensor chunk = hidden.narrow(0, start, n);
    const at::Tensor p = CappedGradients(at::mm(chunk, head.t()), targets.narrow(0, start, n), loss,
                                         losses.Narrow(start, n));
    if (dhead.defined()) dhead.addmm_(p.t(), chunk, 1, scale);
    at::Tensor place = dhidden.narrow(0, start, n);
    // `place` is not initialized; with beta 0 it is not read.
    at::addmm_out(place, place, p, head, /*beta=*/0, /*alpha=*/scale);
  }
}

// The forward pass computes the gradients too. The logits of a chunk are needed by both the loss
// and the gradient and cost 2 T V D operations; recomputing them in backward, or saving [T, V],
// would be more expensive than saving dhidden [T, D] and dhead [V, D]. The output is a scalar, so
// backward only multiplies both by the incoming scalar. All targets are counted.
class CrossEntropyFunction : public torch::autograd::Function<CrossEntropyFunction> {
 public:
  static variable_list forward(AutogradContext* context, const at::Tensor& hidden,
                               const at::Tensor& head, const at::Tensor& targets, double scale,
                               const HeadLoss& loss) {
    const ScopedPhase phase(Phase::kHead);
    const ChunkLosses losses = {at::empty({hidden.size(0)}, hidden.options()),
                                at::empty({hidden.size(0)}, hidden.options()),
                                at::empty({hidden.size(0)}, hidden.options())};
    at::Tensor dhidden = at::empty_like(hidden);
    // A head that is not trained has no gradient.
    at::Tensor dhead = head.requires_grad() ? at::zeros_like(head) : at::Tensor();
    if (loss.soft_cap == 0 && CanRunHeadPanels(hidden, head)) {
      const int64_t* const target = targets.data_ptr<int64_t>();
      const auto differentiate = [&](int64_t token, float* row) {
        DifferentiateRow(row, head.size(0), target[token], loss, token, losses);
      };
      RunHeadPanels(hidden, head, scale, differentiate, dhidden, dhead);
    } else {
      RunChunks(hidden, head, targets, scale, loss, losses, dhidden, dhead);
    }
    context->save_for_backward({dhidden, dhead});
    context->mark_non_differentiable({losses.token});
    at::Tensor total = losses.token.sum();
    if (loss.z_loss != 0) total += losses.squared.sum() * loss.z_loss;
    if (loss.label_smoothing != 0) total += losses.smoothing.sum();
    return {total * scale, losses.token};
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const ScopedPhase phase(Phase::kHead);
    const variable_list saved = context->get_saved_variables();
    return {saved[0] * gradients[0], saved[1].defined() ? saved[1] * gradients[0] : at::Tensor(),
            at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

// As CrossEntropyFunction, for pairs of rows. With the probabilities p and q of the passes, the
// divergence is S / 2 for S = sum (p - q)(log p - log q), and
// dS/dlogits_p = p (log p - log q - KL(p | q)) + p - q.
class ConsistencyFunction : public torch::autograd::Function<ConsistencyFunction> {
 public:
  static variable_list forward(AutogradContext* context, const at::Tensor& hidden,
                               const at::Tensor& head, const at::Tensor& targets, double scale,
                               double c) {
    const ScopedPhase phase(Phase::kHead);
    // A quarter of the rows, because four arrays [rows, V] exist at the same time.
    const int64_t tokens = targets.size(0), rows = HeadChunkTokens(head.size(0)) / 4;
    at::Tensor losses = at::empty({tokens}, hidden.options());
    at::Tensor divergences = at::empty_like(losses);
    at::Tensor dhidden = at::empty_like(hidden), dhead = at::zeros_like(head);
    for (int64_t start = 0; start < tokens; start += rows) {
      const int64_t n = std::min(rows, tokens - start);
      const at::Tensor first = hidden.narrow(0, start, n);
      const at::Tensor second = hidden.narrow(0, tokens + start, n);
      const at::Tensor own = targets.narrow(0, start, n), index = own.unsqueeze(1);
      at::Tensor p = at::log_softmax(at::mm(first, head.t()), 1);
      at::Tensor q = at::log_softmax(at::mm(second, head.t()), 1);
      at::Tensor log_ratio = p - q;
      losses.narrow(0, start, n).copy_((LossesOf(p, own) + LossesOf(q, own)).mul_(0.5));
      p.exp_();
      q.exp_();
      divergences.narrow(0, start, n).copy_((p - q).mul_(log_ratio).sum(1).mul_(0.5));
      const auto add = [&](const at::Tensor& mine, const at::Tensor& other,
                           const at::Tensor& rows_of, int64_t place) {
        at::Tensor gradient = mine * log_ratio;
        const at::Tensor one_way = gradient.sum(1, /*keepdim=*/true);
        at::sub_out(gradient, log_ratio, one_way);
        // mine - one hot + c dS/dlogits
        gradient.add_(1).mul_(c).add_(1).mul_(mine).sub_(other, c);
        gradient.scatter_add_(1, index, at::full_like(index, -1, mine.options()));
        gradient.mul_(0.5 * scale);
        dhead.addmm_(gradient.t(), rows_of);
        at::Tensor out = dhidden.narrow(0, place, n);
        at::mm_out(out, gradient, head);
      };
      add(p, q, first, start);
      log_ratio.neg_();
      add(q, p, second, tokens + start);
    }
    context->save_for_backward({dhidden, dhead});
    context->mark_non_differentiable({losses, divergences});
    return {(losses.sum() + divergences.sum() * c) * scale, losses, divergences};
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const ScopedPhase phase(Phase::kHead);
    const variable_list saved = context->get_saved_variables();
    return {saved[0] * gradients[0], saved[1] * gradients[0], at::Tensor(), at::Tensor(),
            at::Tensor()};
  }
};

// Sets `highest` [n] to the first outputs with the highest of logits [n, V].
void FindHighest(const at::Tensor& logits, const at::Tensor& highest) {
  const at::Tensor rows = logits.to(at::kCPU, at::kFloat).contiguous();
  const int64_t outputs = rows.size(1);
  const float* const values = rows.data_ptr<float>();
  int32_t* const to = highest.data_ptr<int32_t>();
  at::parallel_for(0, rows.size(0), GrainOf(kTaskElements, outputs),
                   [&](int64_t begin, int64_t end) {
                     for (int64_t i = begin; i < end; ++i) {
                       const float* const row = values + i * outputs;
                       to[i] = static_cast<int32_t>(std::max_element(row, row + outputs) - row);
                     }
                   });
}

}  // namespace

ConsistencyResult ConsistencyCrossEntropy(const at::Tensor& hidden, const at::Tensor& head,
                                          const at::Tensor& targets, double scale, double c) {
  const CountedTokens counted(targets);
  const variable_list out =
      ConsistencyFunction::apply(counted.OfBoth(hidden), head, counted.Of(targets), scale, c);
  return {out[0], counted.Spread(out[1]), counted.Spread(out[2])};
}

CrossEntropyResult CrossEntropy(const at::Tensor& hidden, const at::Tensor& head,
                                const at::Tensor& targets, double scale, const HeadLoss& loss) {
  const CountedTokens counted(targets);
  const variable_list out =
      CrossEntropyFunction::apply(counted.Of(hidden), head, counted.Of(targets), scale, loss);
  return {out[0], counted.Spread(out[1])};
}

at::Tensor HeadLogits(const at::Tensor& hidden, const at::Tensor& head, double soft_cap) {
  at::Tensor logits = Product(hidden, head.t());
  return soft_cap == 0 ? logits : logits.div_(soft_cap).tanh_().mul_(soft_cap);
}

TokenScores ScoreTokens(const at::Tensor& hidden, const at::Tensor& head, const at::Tensor& targets,
                        double soft_cap, bool want_highest) {
  const CountedTokens counted(targets);
  const at::Tensor states = counted.Of(hidden), wanted = counted.Of(targets);
  const int64_t rows = HeadChunkTokens(head.size(0));
  at::Tensor losses = at::empty({states.size(0)}, hidden.options()), highest;
  if (want_highest) highest = at::empty({states.size(0)}, at::kInt);
  for (int64_t start = 0; start < states.size(0); start += rows) {
    const int64_t n = std::min(rows, states.size(0) - start);
    const at::Tensor logits = HeadLogits(states.narrow(0, start, n), head, soft_cap);
    losses.narrow(0, start, n)
        .copy_(LossesOf(at::log_softmax(logits, 1), wanted.narrow(0, start, n)));
    if (want_highest) FindHighest(logits, highest.narrow(0, start, n));
  }
  return {counted.Spread(losses),
          want_highest ? counted.Spread(highest.to(hidden.device()), -1) : at::Tensor()};
}

at::Tensor SquaredErrors(const at::Tensor& hidden, const at::Tensor& head,
                         const at::Tensor& targets, const at::Tensor& numbers) {
  const ScopedPhase phase(Phase::kHead);
  const CountedTokens counted(targets);
  const at::Tensor right = counted.Of(numbers.to(hidden.options()));
  const at::Tensor errors = at::mm(counted.Of(hidden), head.t()).squeeze(1) - right;
  return counted.Spread(errors.square());
}

}  // namespace braid
