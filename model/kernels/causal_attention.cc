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

// Rotates q and k, the first two of [3, B, H, L, hd], by direction (1 or -1) times the angle.
void Rotate(const at::Tensor& in, const AttentionTables& tables, int64_t first_position,
            double direction, at::Tensor out) {
  const int64_t half = in.size(-1) / 2, length = in.size(-2);
  const at::Tensor cosine = tables.cosine.narrow(3, first_position, length);
  const at::Tensor sine = tables.sine.narrow(3, first_position, length);
  const at::Tensor a = in.narrow(-1, 0, half), b = in.narrow(-1, half, half);
  at::Tensor out_a = out.narrow(-1, 0, half), out_b = out.narrow(-1, half, half);
  at::mul_out(out_a, a, cosine).addcmul_(b, sine, -direction);
  at::mul_out(out_b, b, cosine).addcmul_(a, sine, direction);
}

// [B, L, 3D] as [3, B, H, L, hd].
at::Tensor HeadView(const at::Tensor& qkv, int64_t num_heads) {
  const int64_t width = qkv.size(2) / 3;
  return qkv.view({qkv.size(0), qkv.size(1), 3, num_heads, width / num_heads})
      .permute({2, 0, 3, 1, 4});
}

// Limit on the probabilities of one call that are saved for backward. Calls above it recompute
// them.
constexpr int64_t kMaxKeptProbabilities = int64_t{4} << 20;

// Probabilities [G, n, visible] of the queries start .. start + n - 1.
at::Tensor BlockProbabilities(const at::Tensor& q, const at::Tensor& k, int64_t start, int64_t n) {
  const int64_t offset = k.size(1) - q.size(1), visible = offset + start + n;
  at::Tensor scores = at::bmm(q.narrow(1, start, n), k.narrow(1, 0, visible).transpose(1, 2));
  if (n > 1) {
    const at::Tensor mask =
        at::full({n, n}, -std::numeric_limits<double>::infinity(), q.options()).triu_(1);
    scores.narrow(2, visible - n, n).add_(mask);
  }
  return at::softmax(scores, -1);
}

struct HeadGradients {
  at::Tensor q, k, v;
};

// Adds the contribution of the queries start .. start + n - 1 with probabilities p. dout is
// [G, L, hd].
void BackwardBlock(const RotatedHeads& heads, const at::Tensor& p, const at::Tensor& dout,
                   int64_t start, int64_t n, const HeadGradients& gradients) {
  const int64_t visible = start + n;
  const at::Tensor block_dout = dout.narrow(1, start, n);
  gradients.v.narrow(1, 0, visible).baddbmm_(p.transpose(1, 2), block_dout);
  const at::Tensor dp = at::bmm(block_dout, heads.v.narrow(1, 0, visible).transpose(1, 2));
  const at::Tensor dscores = at::_softmax_backward_data(dp, p, -1, p.scalar_type());
  at::Tensor block_dq = gradients.q.narrow(1, start, n);
  at::bmm_out(block_dq, dscores, heads.k.narrow(1, 0, visible));
  gradients.k.narrow(1, 0, visible).baddbmm_(dscores.transpose(1, 2), heads.q.narrow(1, start, n));
}

// Returns softmax(q k^T + mask) v. Appends the probabilities of every block to `blocks` unless it
// is nullptr.
at::Tensor AttendByBlocks(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                          variable_list* blocks) {
  at::Tensor out = at::empty_like(q);
  const int64_t offset = k.size(1) - q.size(1);
  for (int64_t start = 0; start < q.size(1); start += kQueryBlock) {
    const int64_t n = std::min(kQueryBlock, q.size(1) - start);
    at::Tensor block = out.narrow(1, start, n);
    const at::Tensor p = BlockProbabilities(q, k, start, n);
    at::bmm_out(block, p, v.narrow(1, 0, offset + start + n));
    if (blocks != nullptr) blocks->push_back(p);
  }
  return out;
}

class CausalAttentionFunction : public torch::autograd::Function<CausalAttentionFunction> {
 public:
  // Saved tensors that precede the saved probabilities.
  static constexpr size_t kNumSaved = 5;

  static at::Tensor forward(AutogradContext* context, const at::Tensor& qkv,
                            const at::Tensor& cosine, const at::Tensor& sine, int64_t num_heads) {
    const AttentionTables tables{cosine, sine, num_heads};
    const RotatedHeads heads = RotateHeads(qkv, tables, 0);
    const at::Tensor q = heads.q.flatten(0, 1), k = heads.k.flatten(0, 1);
    variable_list saved = {heads.q, heads.k, heads.v, cosine, sine};
    const bool keep = q.size(0) * q.size(1) * k.size(1) / 2 <= kMaxKeptProbabilities;
    const at::Tensor out = AttendByBlocks(q, k, heads.v.flatten(0, 1), keep ? &saved : nullptr);
    context->save_for_backward(std::move(saved));
    context->saved_data["num_heads"] = num_heads;
    return out.view(heads.q.sizes())
        .transpose(1, 2)
        .reshape({qkv.size(0), qkv.size(1), qkv.size(2) / 3});
  }

  static variable_list backward(AutogradContext* context, variable_list incoming) {
    const variable_list saved = context->get_saved_variables();
    const AttentionTables tables{saved[3], saved[4], context->saved_data["num_heads"].toInt()};
    const auto shape = saved[0].sizes();  // [B, H, L, hd]
    const int64_t batch = shape[0], length = shape[2], width = shape[1] * shape[3];
    const RotatedHeads heads{saved[0].flatten(0, 1), saved[1].flatten(0, 1),
                             saved[2].flatten(0, 1)};
    const at::Tensor dout = incoming[0]
                                .reshape({batch, length, shape[1], shape[3]})
                                .transpose(1, 2)
                                .contiguous()
                                .flatten(0, 1);
    // One allocation, so that q and k rotate back together.
    const at::Tensor all = at::zeros({3, heads.q.size(0), length, shape[3]}, heads.q.options());
    const HeadGradients gradients{all[0], all[1], all[2]};
    for (int64_t start = 0; start < length; start += kQueryBlock) {
      const int64_t n = std::min(kQueryBlock, length - start);
      const size_t kept = kNumSaved + start / kQueryBlock;
      BackwardBlock(
          heads, kept < saved.size() ? saved[kept] : BlockProbabilities(heads.q, heads.k, start, n),
          dout, start, n, gradients);
    }
    const at::Tensor dqkv = at::empty({batch, length, 3 * width}, heads.q.options());
    const at::Tensor view = HeadView(dqkv, tables.num_heads);
    const at::Tensor by_head = all.view({3, batch, shape[1], length, shape[3]});
    Rotate(by_head.narrow(0, 0, 2), tables, 0, -1, view.narrow(0, 0, 2));
    view[2].copy_(by_head[2]);
    return {dqkv, at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

bool CanFuseAttention(const at::Tensor& qkv) {
  return qkv.device().is_cpu() && qkv.scalar_type() == at::kFloat && HasFusedAttention();
}

AttentionShape ShapeOf(const at::Tensor& qkv, int64_t num_heads) {
  return {qkv.size(0), qkv.size(1), num_heads, qkv.size(2) / 3 / num_heads};
}

RotaryTables TablesOf(const at::Tensor& cosine, const at::Tensor& sine) {
  const at::Tensor query[] = {cosine[0], sine[0]}, key[] = {cosine[1], sine[1]};
  return {query[0].data_ptr<float>(), query[1].data_ptr<float>(), key[0].data_ptr<float>(),
          key[1].data_ptr<float>()};
}

class FusedAttentionFunction : public torch::autograd::Function<FusedAttentionFunction> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& qkv,
                            const at::Tensor& cosine, const at::Tensor& sine, int64_t num_heads) {
    const ScopedPhase phase(Phase::kAttention);
    const AttentionShape shape = ShapeOf(qkv, num_heads);
    const at::Tensor out = at::empty({shape.batch, shape.length, shape.width()}, qkv.options());
    const at::Tensor log_sums = at::empty({shape.batch, num_heads, shape.length}, qkv.options());
    FusedAttentionForward(shape, TablesOf(cosine, sine), qkv.data_ptr<float>(),
                          out.data_ptr<float>(), log_sums.data_ptr<float>(), at::get_num_threads());
    context->save_for_backward({qkv, cosine, sine, out, log_sums});
    context->saved_data["num_heads"] = num_heads;
    return out;
  }

  static variable_list backward(AutogradContext* context, variable_list incoming) {
    const ScopedPhase phase(Phase::kAttention);
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &qkv = saved[0], dout = incoming[0].contiguous(), dqkv = at::empty_like(qkv);
    FusedAttentionBackward(ShapeOf(qkv, context->saved_data["num_heads"].toInt()),
                           TablesOf(saved[1], saved[2]), qkv.data_ptr<float>(),
                           saved[3].data_ptr<float>(), saved[4].data_ptr<float>(),
                           dout.data_ptr<float>(), dqkv.data_ptr<float>(), at::get_num_threads());
    return {dqkv, at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

}  // namespace

AttentionTables MakeAttentionTables(int64_t max_length, int64_t num_heads, int64_t head_width,
                                    double theta, const at::TensorOptions& options) {
  const at::TensorOptions wide = options.dtype(at::kDouble);
  const at::Tensor exponent = at::arange(0, head_width, 2, wide).div_(-double(head_width));
  const at::Tensor frequency = at::pow(at::Scalar(theta), exponent);
  const at::Tensor angle = at::outer(at::arange(max_length, wide), frequency);
  const at::Tensor scale =
      at::tensor({1 / std::sqrt(static_cast<double>(head_width)), 1.0}, at::kDouble)
          .to(options.device())
          .view({2, 1, 1, 1, 1});
  const auto dtype = at::typeMetaToScalarType(options.dtype());
  return {(angle.cos() * scale).to(dtype), (angle.sin() * scale).to(dtype), num_heads};
}

RotatedHeads RotateHeads(const at::Tensor& qkv, const AttentionTables& tables,
                         int64_t first_position) {
  const at::Tensor view = HeadView(qkv, tables.num_heads);
  const at::Tensor heads = at::empty(view.sizes(), qkv.options());
  Rotate(view.narrow(0, 0, 2), tables, first_position, 1, heads.narrow(0, 0, 2));
  heads[2].copy_(view[2]);
  return {heads[0], heads[1], heads[2]};
}

at::Tensor CausalAttend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
  return AttendByBlocks(q, k, v, nullptr);
}

at::Tensor CausalAttention(const at::Tensor& qkv, const AttentionTables& tables) {
  if (CanFuseAttention(qkv)) {
    return FusedAttentionFunction::apply(qkv.contiguous(), tables.cosine, tables.sine,
                                         tables.num_heads);
  }
  return CausalAttentionFunction::apply(qkv, tables.cosine, tables.sine, tables.num_heads);
}

}  // namespace braid
