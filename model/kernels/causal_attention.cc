#include "model/kernels/causal_attention.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "model/kernels/fused_attention.h"
#include "model/kernels/phase_times.h"

namespace braid {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Queries per block: few enough that the scores of a block stay in cache.
constexpr int64_t kQueryBlock = 128;

// Rotates [B, heads, L, hd] by direction (1 or -1) times the angle; the tables are [1, 1, L, hd/2].
void Rotate(const at::Tensor& in, const at::Tensor& cosine, const at::Tensor& sine,
            double direction, at::Tensor out) {
  const int64_t half = in.size(-1) / 2;
  const at::Tensor a = in.narrow(-1, 0, half), b = in.narrow(-1, half, half);
  at::Tensor out_a = out.narrow(-1, 0, half), out_b = out.narrow(-1, half, half);
  at::mul_out(out_a, a, cosine).addcmul_(b, sine, -direction);
  at::mul_out(out_b, b, cosine).addcmul_(a, sine, direction);
}

// Rotates queries and keys from `in` to `out` by the angles of `first_position` and later ones.
void RotateBoth(const RotatedHeads& in, const AttentionTables& tables, int64_t first_position,
                double direction, const RotatedHeads& out) {
  const int64_t length = in.q.size(2);
  const at::Tensor cosine = tables.cosine.narrow(3, first_position, length);
  const at::Tensor sine = tables.sine.narrow(3, first_position, length);
  Rotate(in.q, cosine[0], sine[0], direction, out.q);
  Rotate(in.k, cosine[1], sine[1], direction, out.k);
}

// Returns views of qkv [B, L, (H + 2 Hkv) hd] by head.
RotatedHeads HeadViews(const at::Tensor& qkv, const AttentionHeads& heads) {
  const auto part = [&](int64_t first, int64_t count) {
    return qkv.narrow(2, first * heads.width, count * heads.width)
        .view({qkv.size(0), qkv.size(1), count, heads.width})
        .transpose(1, 2);
  };
  return {part(0, heads.query), part(heads.query, heads.key_value),
          part(heads.query + heads.key_value, heads.key_value)};
}

// The heads of one call as products take them: G key heads of all sequences, each with the n query
// heads of its group.
struct GroupedHeads {
  at::Tensor q;     // [G, n, Lq, hd]
  at::Tensor k, v;  // [G, Lk, hd]
};

GroupedHeads GroupHeads(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
  const int64_t groups = k.size(0);
  return {q.view({groups, q.size(0) / groups, q.size(1), q.size(2)}), k, v};
}

GroupedHeads GroupHeads(const RotatedHeads& heads) {
  return GroupHeads(heads.q.flatten(0, 1), heads.k.flatten(0, 1), heads.v.flatten(0, 1));
}

// Returns the rows of queries start .. start + n - 1 of x [G, group, L, hd] as [G, group * n, hd].
at::Tensor GroupRows(const at::Tensor& x, int64_t start, int64_t n) {
  return x.narrow(2, start, n).reshape({x.size(0), x.size(1) * n, x.size(3)});
}

// Limit on the probabilities of one call that are saved for backward. Calls above it recompute
// them.
constexpr int64_t kMaxKeptProbabilities = int64_t{4} << 20;

// Hides the keys before the first that each query sees. scores [G, group * n, keys]; first [B, n],
// where the key heads G are those of B sequences one after the other.
void HideStart(const at::Tensor& first, const at::Tensor& scores) {
  const int64_t batch = first.size(0), n = first.size(1), keys = scores.size(2);
  const at::Tensor hidden =
      at::arange(keys, first.options()).view({1, 1, 1, keys}) < first.view({batch, 1, n, 1});
  scores.view({batch, -1, n, keys}).masked_fill_(hidden, -std::numeric_limits<double>::infinity());
}

// Probabilities [G, group * n, visible] of the queries start .. start + n - 1.
at::Tensor BlockProbabilities(const at::Tensor& q, const at::Tensor& k,
                              const at::Tensor& first_visible, int64_t start, int64_t n) {
  const int64_t offset = k.size(1) - q.size(2), visible = offset + start + n;
  at::Tensor scores = at::bmm(GroupRows(q, start, n), k.narrow(1, 0, visible).transpose(1, 2));
  if (n > 1) {
    const at::Tensor mask =
        at::full({n, n}, -std::numeric_limits<double>::infinity(), q.options()).triu_(1);
    scores.view({q.size(0), q.size(1), n, visible}).narrow(3, visible - n, n).add_(mask);
  }
  if (first_visible.defined()) HideStart(first_visible.narrow(1, start, n), scores);
  // Every query sees its own position, so no row is hidden as a whole, which would make it NaN.
  return at::softmax(scores, -1);
}

// Adds the contribution of the queries start .. start + n - 1 with probabilities p to `gradients`.
// dout is [G, group, L, hd]. The products over a group's rows sum the gradients of its key head.
void BackwardBlock(const GroupedHeads& heads, const at::Tensor& p, const at::Tensor& dout,
                   int64_t start, int64_t n, const GroupedHeads& gradients) {
  const int64_t visible = start + n;
  const at::Tensor block_dout = GroupRows(dout, start, n);
  gradients.v.narrow(1, 0, visible).baddbmm_(p.transpose(1, 2), block_dout);
  const at::Tensor dp = at::bmm(block_dout, heads.v.narrow(1, 0, visible).transpose(1, 2));
  const at::Tensor dscores = at::_softmax_backward_data(dp, p, -1, p.scalar_type());
  const at::Tensor block_dq = gradients.q.narrow(2, start, n);
  block_dq.copy_(at::bmm(dscores, heads.k.narrow(1, 0, visible)).view(block_dq.sizes()));
  gradients.k.narrow(1, 0, visible).baddbmm_(dscores.transpose(1, 2), GroupRows(heads.q, start, n));
}

// Returns softmax(q k^T + mask) v, [G, group, Lq, hd]. Appends the probabilities of every block to
// `blocks` unless it is nullptr.
at::Tensor AttendByBlocks(const GroupedHeads& heads, const at::Tensor& first_visible,
                          variable_list* blocks) {
  const at::Tensor& q = heads.q;
  at::Tensor out = at::empty_like(q);
  const int64_t offset = heads.k.size(1) - q.size(2);
  for (int64_t start = 0; start < q.size(2); start += kQueryBlock) {
    const int64_t n = std::min(kQueryBlock, q.size(2) - start);
    const at::Tensor block = out.narrow(2, start, n);
    const at::Tensor p = BlockProbabilities(q, heads.k, first_visible, start, n);
    block.copy_(at::bmm(p, heads.v.narrow(1, 0, offset + start + n)).view(block.sizes()));
    if (blocks != nullptr) blocks->push_back(p);
  }
  return out;
}

void SaveHeads(const AttentionHeads& heads, AutogradContext* context) {
  context->saved_data["heads"] = heads.query;
  context->saved_data["key_heads"] = heads.key_value;
  context->saved_data["width"] = heads.width;
}

AttentionHeads SavedHeads(AutogradContext* context) {
  return {.query = context->saved_data["heads"].toInt(),
          .key_value = context->saved_data["key_heads"].toInt(),
          .width = context->saved_data["width"].toInt()};
}

// Wraps a tensor that may be undefined: autograd functions accept no undefined tensor as an
// argument, but any other type.
struct VisiblePositions {
  at::Tensor first;
};

class CausalAttentionFunction : public torch::autograd::Function<CausalAttentionFunction> {
 public:
  // Saved tensors that precede the saved probabilities.
  static constexpr size_t kNumSaved = 6;

  static at::Tensor forward(AutogradContext* context, const at::Tensor& qkv,
                            const at::Tensor& cosine, const at::Tensor& sine,
                            const VisiblePositions& visible, const AttentionHeads& shape) {
    const RotatedHeads heads = RotateHeads(qkv, {cosine, sine, shape}, 0);
    const GroupedHeads grouped = GroupHeads(heads);
    variable_list saved = {heads.q, heads.k, heads.v, cosine, sine, visible.first};
    const int64_t num_scores = heads.q.size(0) * shape.query * qkv.size(1) * qkv.size(1);
    // On average a query sees half of the keys.
    const bool keep = num_scores / 2 <= kMaxKeptProbabilities;
    const at::Tensor out = AttendByBlocks(grouped, visible.first, keep ? &saved : nullptr);
    context->save_for_backward(std::move(saved));
    SaveHeads(shape, context);
    return out.view(heads.q.sizes())
        .transpose(1, 2)
        .reshape({qkv.size(0), qkv.size(1), shape.query_width()});
  }

  static variable_list backward(AutogradContext* context, variable_list incoming) {
    const variable_list saved = context->get_saved_variables();
    const AttentionTables tables{saved[3], saved[4], SavedHeads(context)};
    const RotatedHeads heads{saved[0], saved[1], saved[2]};
    const GroupedHeads grouped = GroupHeads(heads);
    const int64_t batch = heads.q.size(0), length = heads.q.size(2);
    const at::Tensor dout = incoming[0]
                                .reshape({batch, length, tables.heads.query, tables.heads.width})
                                .transpose(1, 2)
                                .contiguous()
                                .view(grouped.q.sizes());
    // dq is written block by block, whereas dk and dv are sums over all blocks.
    const RotatedHeads rotated{at::empty_like(heads.q), at::zeros_like(heads.k),
                               at::zeros_like(heads.v)};
    const GroupedHeads gradients = GroupHeads(rotated);
    for (int64_t start = 0; start < length; start += kQueryBlock) {
      const int64_t n = std::min(kQueryBlock, length - start);
      const size_t kept = kNumSaved + start / kQueryBlock;
      BackwardBlock(grouped,
                    kept < saved.size()
                        ? saved[kept]
                        : BlockProbabilities(grouped.q, grouped.k, saved[5], start, n),
                    dout, start, n, gradients);
    }
    const at::Tensor dqkv = at::empty({batch, length, tables.heads.qkv_width()}, heads.q.options());
    const RotatedHeads views = HeadViews(dqkv, tables.heads);
    RotateBoth(rotated, tables, 0, -1, views);
    views.v.copy_(rotated.v);
    return {dqkv, at::Tensor(), at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

bool CanFuseAttention(const at::Tensor& qkv) {
  return qkv.device().is_cpu() && qkv.scalar_type() == at::kFloat && HasFusedAttention();
}

AttentionShape ShapeOf(const at::Tensor& qkv, const AttentionHeads& heads,
                       const at::Tensor& first_visible) {
  return {qkv.size(0), qkv.size(1), heads,
          first_visible.defined() ? first_visible.data_ptr<int32_t>() : nullptr};
}

RotaryTables TablesOf(const at::Tensor& cosine, const at::Tensor& sine) {
  // The views end with this function, but the tables own the memory that the result points to.
  const at::Tensor query[] = {cosine[0], sine[0]}, key[] = {cosine[1], sine[1]};
  return {query[0].data_ptr<float>(), query[1].data_ptr<float>(), key[0].data_ptr<float>(),
          key[1].data_ptr<float>()};
}

class FusedAttentionFunction : public torch::autograd::Function<FusedAttentionFunction> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& qkv,
                            const at::Tensor& cosine, const at::Tensor& sine,
                            const VisiblePositions& visible, const AttentionHeads& heads) {
    const ScopedPhase phase(Phase::kAttention);
    const AttentionShape shape = ShapeOf(qkv, heads, visible.first);
    const at::Tensor out =
        at::empty({shape.batch, shape.length, heads.query_width()}, qkv.options());
    const at::Tensor log_sums = at::empty({shape.batch, heads.query, shape.length}, qkv.options());
    FusedAttentionForward(shape, TablesOf(cosine, sine), qkv.data_ptr<float>(),
                          out.data_ptr<float>(), log_sums.data_ptr<float>(), at::get_num_threads());
    context->save_for_backward({qkv, cosine, sine, visible.first, out, log_sums});
    SaveHeads(heads, context);
    return out;
  }

  static variable_list backward(AutogradContext* context, variable_list incoming) {
    const ScopedPhase phase(Phase::kAttention);
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &qkv = saved[0], dout = incoming[0].contiguous(), dqkv = at::empty_like(qkv);
    FusedAttentionBackward(ShapeOf(qkv, SavedHeads(context), saved[3]),
                           TablesOf(saved[1], saved[2]), qkv.data_ptr<float>(),
                           saved[4].data_ptr<float>(), saved[5].data_ptr<float>(),
                           dout.data_ptr<float>(), dqkv.data_ptr<float>(), at::get_num_threads());
    return {dqkv, at::Tensor(), at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

}  // namespace

AttentionTables MakeAttentionTables(int64_t max_length, const AttentionHeads& heads,
                                    std::span<const double> frequencies,
                                    const at::TensorOptions& options) {
  const at::TensorOptions wide = options.dtype(at::kDouble);
  const at::Tensor frequency =
      at::tensor(at::ArrayRef<double>(frequencies.data(), frequencies.size()), at::kDouble)
          .to(options.device());
  const at::Tensor angle = at::outer(at::arange(max_length, wide), frequency);
  const at::Tensor scale =
      at::tensor({1 / std::sqrt(static_cast<double>(heads.width)), 1.0}, at::kDouble)
          .to(options.device())
          .view({2, 1, 1, 1, 1});
  const auto dtype = at::typeMetaToScalarType(options.dtype());
  return {(angle.cos() * scale).to(dtype), (angle.sin() * scale).to(dtype), heads};
}

RotatedHeads RotateHeads(const at::Tensor& qkv, const AttentionTables& tables,
                         int64_t first_position) {
  const RotatedHeads views = HeadViews(qkv, tables.heads);
  const RotatedHeads heads{at::empty(views.q.sizes(), qkv.options()),
                           at::empty(views.k.sizes(), qkv.options()), views.v.contiguous()};
  RotateBoth(views, tables, first_position, 1, heads);
  return heads;
}

at::Tensor CausalAttend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                        const at::Tensor& first_visible) {
  return AttendByBlocks(GroupHeads(q, k, v), first_visible, nullptr).view(q.sizes());
}

at::Tensor CausalAttention(const at::Tensor& qkv, const AttentionTables& tables,
                           const at::Tensor& first_visible) {
  if (CanFuseAttention(qkv)) {
    return FusedAttentionFunction::apply(qkv.contiguous(), tables.cosine, tables.sine,
                                         VisiblePositions{first_visible}, tables.heads);
  }
  return CausalAttentionFunction::apply(qkv, tables.cosine, tables.sine,
                                        VisiblePositions{first_visible}, tables.heads);
}

}  // namespace braid
