#include "model/kernels/cross_entropy.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>

#include "model/kernels/phase_times.h"
#include "model/kernels/vector_kernels.h"

namespace braid {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Number of tokens per chunk: enough that dhead [V, D] is rewritten rarely, few enough that the
// logits of small vocabularies stay in cache.
int64_t ChunkRows(int64_t vocabulary) {
  return std::max<int64_t>(512, (int64_t{512} << 10) / vocabulary);
}

struct Targets {
  at::Tensor index;    // [n, 1], ignored ones set to 0
  at::Tensor ignored;  // [n, 1] bool
};

Targets SplitTargets(const at::Tensor& targets) {
  const at::Tensor column = targets.unsqueeze(1);
  return {column.clamp_min(0), column.lt(0)};
}

bool IsSinglePrecision(const at::Tensor& logits) {
  return logits.device().is_cpu() && logits.scalar_type() == at::kFloat;
}

// Replaces logits [n, V] by softmax - one hot and fills losses [n] (0 where the target is ignored),
// in one pass per row.
void DifferentiateRows(const at::Tensor& logits, const at::Tensor& targets, at::Tensor losses) {
  const int64_t v = logits.size(1);
  float *values = logits.data_ptr<float>(), *loss = losses.data_ptr<float>();
  const int64_t* target = targets.data_ptr<int64_t>();
  at::parallel_for(0, logits.size(0), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      float* row = values + i * v;
      const int64_t right = std::max<int64_t>(target[i], 0);
      const float logit = row[right];
      const float log_sum = Vector().softmax_row(row, v);
      row[right] -= 1;
      loss[i] = target[i] < 0 ? 0 : log_sum - logit;
    }
  });
}

void StoreLosses(const at::Tensor& log_probabilities, const Targets& targets, at::Tensor out) {
  out.copy_(log_probabilities.gather(1, targets.index)
                .neg_()
                .masked_fill_(targets.ignored, 0)
                .squeeze(1));
}

// Returns d loss / d logits = softmax - one hot, [n, V]; fills losses [n].
at::Tensor LogitGradients(at::Tensor logits, const at::Tensor& targets, const Targets& split,
                          at::Tensor losses) {
  if (IsSinglePrecision(logits)) {
    DifferentiateRows(logits, targets, losses);
    return logits;
  }
  at::Tensor p = at::log_softmax(logits, 1);
  StoreLosses(p, split, losses);
  return p.exp_().scatter_add_(1, split.index, at::full_like(split.index, -1, p.options()));
}

// The forward pass computes the gradients too. The logits of a chunk are needed by both the loss
// and the gradient and cost 2 T V D operations; recomputing them in backward, or saving [T, V],
// would be more expensive than saving dhidden [T, D] and dhead [V, D]. The output is a scalar, so
// backward only multiplies both by the incoming scalar.
class CrossEntropyFunction : public torch::autograd::Function<CrossEntropyFunction> {
 public:
  static variable_list forward(AutogradContext* context, const at::Tensor& hidden,
                               const at::Tensor& head, const at::Tensor& targets, double scale) {
    const ScopedPhase phase(Phase::kHead);
    const int64_t rows = ChunkRows(head.size(0));
    at::Tensor losses = at::empty({hidden.size(0)}, hidden.options());
    at::Tensor dhidden = at::empty_like(hidden);
    // A head that is not trained has no gradient.
    const bool trains_head = head.requires_grad();
    at::Tensor dhead = trains_head ? at::zeros_like(head) : at::Tensor();
    for (int64_t start = 0; start < hidden.size(0); start += rows) {
      const int64_t n = std::min(rows, hidden.size(0) - start);
      const at::Tensor chunk = hidden.narrow(0, start, n);
      const Targets chunk_targets = SplitTargets(targets.narrow(0, start, n));
      const at::Tensor p = LogitGradients(at::mm(chunk, head.t()), targets.narrow(0, start, n),
                                          chunk_targets, losses.narrow(0, start, n));
      // Rows of ignored tokens are zeroed in the operands [n, D] of the two products, which are
      // narrower than the logits [n, V].
      if (trains_head) dhead.addmm_(p.t(), chunk.masked_fill(chunk_targets.ignored, 0), 1, scale);
      at::Tensor place = dhidden.narrow(0, start, n);
      at::addmm_out(place, place, p, head, /*beta=*/0, /*alpha=*/scale);
      place.masked_fill_(chunk_targets.ignored, 0);
    }
    context->save_for_backward({dhidden, dhead});
    context->mark_non_differentiable({losses});
    return {losses.sum() * scale, losses};
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const ScopedPhase phase(Phase::kHead);
    const variable_list saved = context->get_saved_variables();
    return {saved[0] * gradients[0], saved[1].defined() ? saved[1] * gradients[0] : at::Tensor(),
            at::Tensor(), at::Tensor()};
  }
};

}  // namespace

CrossEntropyResult CrossEntropy(const at::Tensor& hidden, const at::Tensor& head,
                                const at::Tensor& targets, double scale) {
  const variable_list out = CrossEntropyFunction::apply(hidden, head, targets, scale);
  return {out[0], out[1]};
}

at::Tensor TokenLosses(const at::Tensor& hidden, const at::Tensor& head,
                       const at::Tensor& targets) {
  const int64_t rows = ChunkRows(head.size(0));
  at::Tensor losses = at::empty({hidden.size(0)}, hidden.options());
  for (int64_t start = 0; start < hidden.size(0); start += rows) {
    const int64_t n = std::min(rows, hidden.size(0) - start);
    const at::Tensor logits = at::mm(hidden.narrow(0, start, n), head.t());
    StoreLosses(at::log_softmax(logits, 1), SplitTargets(targets.narrow(0, start, n)),
                losses.narrow(0, start, n));
  }
  return losses;
}

}  // namespace braid
