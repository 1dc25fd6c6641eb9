#include "model/kernels/soft_merge.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>

#include "model/kernels/fused_ffn_function.h"
#include "model/kernels/swiglu.h"

namespace braid {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// [2, E, F, D] -> [N, 2F, D].
at::Tensor MergeGateUp(const at::Tensor& routing, const at::Tensor& gate_up) {
  const int64_t n = routing.size(0), f = gate_up.size(2), d = gate_up.size(3);
  at::Tensor merged = at::empty({n, 2, f * d}, gate_up.options());
  for (int64_t half = 0; half < 2; ++half) {
    at::Tensor place = merged.select(1, half);
    at::mm_out(place, routing, gate_up.select(0, half).flatten(1));
  }
  return merged.view({n, 2 * f, d});
}

// [E, F, D] -> [N, F, D].
at::Tensor MergeDown(const at::Tensor& routing, const at::Tensor& down) {
  return at::mm(routing, down.flatten(1)).view({routing.size(0), down.size(1), down.size(2)});
}

int64_t SegmentsPerGroup(const at::Tensor& down, int64_t scratch_bytes) {
  const int64_t bytes = 2 * down.size(1) * down.size(2) * down.element_size();
  return std::clamp<int64_t>(scratch_bytes / bytes, 1, kMaxSegmentsPerMerge);
}

// Gradients of one SoftMergeFfn call, filled group by group.
struct Gradients {
  at::Tensor x, routing, gate_up, down;
  // 0 before the first group, which overwrites the experts' gradients: the beta of the products.
  int64_t keep = 0;
};

// Adds the contribution of one matrix, given the merged gradients [N, out * in] and the experts
// [E, out * in]: dW_i += sum_n e_ni G_n and de_ni += <G_n, W_i>.
void Scatter(const at::Tensor& routing, const at::Tensor& merged_gradient,
             const at::Tensor& experts, at::Tensor drouting, at::Tensor dexperts, int64_t keep) {
  dexperts.addmm_(routing.t(), merged_gradient, /*beta=*/keep);
  drouting.addmm_(merged_gradient, experts.t());
}

void BackwardGroup(const at::Tensor& x, const at::Tensor& routing, const SoftExperts& experts,
                   const at::Tensor& hidden, const at::Tensor& dy, at::Tensor dx,
                   at::Tensor drouting, Gradients* sums) {
  const int64_t n = x.size(0), f = experts.down.size(1), d = experts.down.size(2);
  const at::Tensor dactivation = at::bmm(dy, MergeDown(routing, experts.down).transpose(1, 2));
  const SwiGluGradients inner = SwiGluBackward(hidden, dactivation);
  at::Tensor merged_gradient = at::bmm(inner.activation.transpose(1, 2), dy);
  Scatter(routing, merged_gradient.view({n, f * d}), experts.down.flatten(1), drouting,
          sums->down.flatten(1), sums->keep);
  at::bmm_out(dx, inner.gate_up, MergeGateUp(routing, experts.gate_up));
  merged_gradient = at::bmm(inner.gate_up.transpose(1, 2), x).view({n, 2, f * d});
  for (int64_t half = 0; half < 2; ++half) {
    Scatter(routing, merged_gradient.select(1, half), experts.gate_up.select(0, half).flatten(1),
            drouting, sums->gate_up.select(0, half).flatten(1), sums->keep);
  }
  sums->keep = 1;
}

// The plain version of the soft merge, for double precision and for devices other than CPUs. It
// writes merged matrices to memory, a group of segments at a time. Forward saves only the gate and
// up projections `hidden`; backward merges each group again, because saving the merged matrices
// would take N/E times the memory of the experts.
class SoftMergeFunction : public torch::autograd::Function<SoftMergeFunction> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x,
                            const at::Tensor& routing, const at::Tensor& gate_up,
                            const at::Tensor& down, int64_t scratch_bytes) {
    const int64_t n = x.size(0), f = down.size(1);
    at::Tensor hidden = at::empty({n, x.size(1), 2 * f}, x.options());
    at::Tensor y = at::empty_like(x);
    const int64_t step = SegmentsPerGroup(down, scratch_bytes);
    for (int64_t start = 0; start < n; start += step) {
      const int64_t count = std::min(step, n - start);
      const at::Tensor weights = routing.narrow(0, start, count);
      at::Tensor group = hidden.narrow(0, start, count), out = y.narrow(0, start, count);
      at::bmm_out(group, x.narrow(0, start, count), MergeGateUp(weights, gate_up).transpose(1, 2));
      at::bmm_out(out, SwiGluForward(group), MergeDown(weights, down));
    }
    context->save_for_backward({x, routing, gate_up, down, hidden});
    context->saved_data["step"] = step;
    return y;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &routing = saved[1], &hidden = saved[4];
    const SoftExperts experts{saved[2], saved[3]};
    const at::Tensor dy = gradients[0].contiguous();
    const int64_t step = context->saved_data["step"].toInt();
    Gradients sums{at::empty_like(x), at::zeros_like(routing), at::empty_like(experts.gate_up),
                   at::empty_like(experts.down)};
    for (int64_t start = 0; start < x.size(0); start += step) {
      const int64_t count = std::min(step, x.size(0) - start);
      const auto group = [&](const at::Tensor& t) { return t.narrow(0, start, count); };
      BackwardGroup(group(x), group(routing), experts, group(hidden), group(dy), group(sums.x),
                    group(sums.routing), &sums);
    }
    return {sums.x, sums.routing, sums.gate_up, sums.down, at::Tensor()};
  }
};

}  // namespace

at::Tensor SoftMergeFfn(const at::Tensor& x, const at::Tensor& routing, const SoftExperts& experts,
                        int64_t scratch_bytes) {
  if (CanFuseFfn(x)) {
    return FusedFfn(x.flatten(0, 1), routing, experts.gate_up, experts.down).view(x.sizes());
  }
  return SoftMergeFunction::apply(x.contiguous(), routing.contiguous(), experts.gate_up,
                                  experts.down, scratch_bytes);
}

MergedFfn MergeExperts(const at::Tensor& routing, const SoftExperts& experts) {
  return {MergeGateUp(routing, experts.gate_up), MergeDown(routing, experts.down)};
}

}  // namespace braid
