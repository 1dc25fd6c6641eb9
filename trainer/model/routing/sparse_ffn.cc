#include "trainer/model/routing/sparse_ffn.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <vector>

#include "trainer/kernels/swiglu.h"
#include "trainer/phase_times.h"

namespace braid {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Expert i has the pairs [begin, begin + count) of the list of all chosen pairs.
struct ExpertSpan {
  int64_t begin, count;

  at::Tensor Of(const at::Tensor& pairs) const { return pairs.narrow(0, begin, count); }
};

std::vector<ExpertSpan> SpansOf(const at::Tensor& chosen) {
  const at::Tensor counts = chosen.sum(0).to(at::kCPU);
  std::vector<ExpertSpan> spans;
  int64_t begin = 0;
  for (int64_t e = 0; e < counts.numel(); ++e) {
    spans.push_back({begin, counts[e].item<int64_t>()});
    begin += spans.back().count;
  }
  return spans;
}

// The row of every chosen pair [P], by expert, then ascending.
at::Tensor ChosenRows(const at::Tensor& chosen) {
  return chosen.t().nonzero().select(1, 1).contiguous();
}

// The gate (0) or up (1) columns of one expert's pairs [P, 2F].
at::Tensor GateOrUp(const at::Tensor& hidden, int64_t half) {
  const int64_t width = hidden.size(1) / 2;
  return hidden.narrow(1, half * width, width);
}

class SparseFfnFunction : public torch::autograd::Function<SparseFfnFunction> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& gates,
                            const at::Tensor& chosen, const at::Tensor& gate_up,
                            const at::Tensor& down) {
    const ScopedPhase phase(Phase::kFfn);
    const at::Tensor rows = ChosenRows(chosen);
    const at::Tensor inputs = x.index_select(0, rows);
    const at::Tensor scales = gates.t().masked_select(chosen.t()).unsqueeze(1);
    const at::Tensor hidden = at::empty({rows.size(0), 2 * down.size(1)}, x.options());
    at::Tensor y = at::zeros_like(x);
    const std::vector<ExpertSpan> spans = SpansOf(chosen);
    for (size_t e = 0; e < spans.size(); ++e) {
      if (spans[e].count == 0) continue;
      const at::Tensor mine = spans[e].Of(hidden), in = spans[e].Of(inputs);
      for (int64_t half = 0; half < 2; ++half) {
        GateOrUp(mine, half).copy_(at::mm(in, gate_up[half][e].t()));
      }
      const at::Tensor out = at::mm(SwiGluForward(mine), down[e]).mul_(spans[e].Of(scales));
      y.index_add_(0, spans[e].Of(rows), out);
    }
    context->save_for_backward({x, gates, chosen, gate_up, down, hidden});
    return y;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const ScopedPhase phase(Phase::kFfn);
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &chosen = saved[2], &gate_up = saved[3], &down = saved[4];
    const at::Tensor rows = ChosenRows(chosen);
    const at::Tensor inputs = x.index_select(0, rows);
    const at::Tensor scales = saved[1].t().masked_select(chosen.t()).unsqueeze(1);
    const at::Tensor dy = gradients[0].index_select(0, rows);
    at::Tensor dx = at::zeros_like(x), dscales = at::empty_like(scales);
    at::Tensor dgate_up = at::zeros_like(gate_up), ddown = at::zeros_like(down);
    const std::vector<ExpertSpan> spans = SpansOf(chosen);
    for (size_t e = 0; e < spans.size(); ++e) {
      if (spans[e].count == 0) continue;
      const at::Tensor in = spans[e].Of(inputs), scale = spans[e].Of(scales);
      // Of the activation, before the scale.
      const at::Tensor unscaled = at::mm(spans[e].Of(dy), down[e].t());
      const SwiGluGradients inner = SwiGluBackward(spans[e].Of(saved[5]), unscaled * scale);
      spans[e].Of(dscales).copy_((unscaled * inner.activation).sum(1, /*keepdim=*/true));
      ddown[e].addmm_(inner.activation.t(), spans[e].Of(dy) * scale);
      at::Tensor din = at::mm(GateOrUp(inner.gate_up, 0), gate_up[0][e]);
      din.addmm_(GateOrUp(inner.gate_up, 1), gate_up[1][e]);
      for (int64_t half = 0; half < 2; ++half) {
        dgate_up[half][e].addmm_(GateOrUp(inner.gate_up, half).t(), in);
      }
      dx.index_add_(0, spans[e].Of(rows), din);
    }
    const at::Tensor dgates = at::zeros({chosen.size(1), chosen.size(0)}, x.options())
                                  .masked_scatter_(chosen.t(), dscales)
                                  .t();
    return {dx, dgates, at::Tensor(), dgate_up, ddown};
  }
};

}  // namespace

at::Tensor SparseFfn(const at::Tensor& x, const at::Tensor& gates, const at::Tensor& chosen,
                     const SoftExperts& experts) {
  return SparseFfnFunction::apply(x, gates, chosen, experts.gate_up, experts.down);
}

}  // namespace braid
