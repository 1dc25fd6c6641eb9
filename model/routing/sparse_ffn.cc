#include "model/routing/sparse_ffn.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <vector>

#include "model/kernels/phase_times.h"
#include "model/kernels/swiglu.h"

namespace braid {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// The range [begin, begin + count) of one expert in the list of all chosen pairs.
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

// Returns the row of every chosen pair [P], ordered by expert, then ascending.
at::Tensor ChosenRows(const at::Tensor& chosen) {
  return chosen.t().nonzero().select(1, 1).contiguous();
}

// Returns the gate (0) or up (1) columns of one expert's pairs [P, 2F].
at::Tensor GateOrUp(const at::Tensor& hidden, int64_t half) {
  const int64_t width = hidden.size(1) / 2;
  return hidden.narrow(1, half * width, width);
}

// The chosen (row, expert) pairs of a call, sorted by expert, so that each expert is one dense
// product over a contiguous range. The order is fixed, and so are the bits of the sums over it.
struct Pairs {
  at::Tensor rows;    // [P], rows of x
  at::Tensor inputs;  // [P, D]
  at::Tensor scales;  // [P, 1], gate of each pair
  std::vector<ExpertSpan> spans;

  static Pairs Of(const at::Tensor& x, const at::Tensor& gates, const at::Tensor& chosen) {
    const at::Tensor rows = ChosenRows(chosen);
    return {rows, x.index_select(0, rows), gates.t().masked_select(chosen.t()).unsqueeze(1),
            SpansOf(chosen)};
  }

  // Scatters dscales [P, 1] to [T, E], with zeros where a pair was not chosen.
  static at::Tensor GateGradients(const at::Tensor& chosen, const at::Tensor& dscales) {
    return at::zeros({chosen.size(1), chosen.size(0)}, dscales.options())
        .masked_scatter_(chosen.t(), dscales)
        .t();
  }
};

// The gradients of one expert. No other expert adds to them.
struct ExpertGradients {
  at::Tensor gate_up[2], down;  // [F, D] each
  at::Tensor dscales;           // [n, 1]
};

// Returns the gradient of the expert's inputs [n, D], given that of its scaled outputs.
at::Tensor BackwardExpert(const at::Tensor& inputs, const at::Tensor& scales,
                          const at::Tensor& hidden, const at::Tensor& dy, const at::Tensor& gate,
                          const at::Tensor& up, const at::Tensor& down, ExpertGradients gradients) {
  // The gradient of the activation before it is scaled.
  const at::Tensor unscaled = at::mm(dy, down.t());
  const SwiGluGradients inner = SwiGluBackward(hidden, unscaled * scales);
  gradients.dscales.copy_((unscaled * inner.activation).sum(1, /*keepdim=*/true));
  gradients.down.addmm_(inner.activation.t(), dy * scales);
  for (int64_t half = 0; half < 2; ++half) {
    gradients.gate_up[half].addmm_(GateOrUp(inner.gate_up, half).t(), inputs);
  }
  return at::mm(GateOrUp(inner.gate_up, 0), gate).addmm_(GateOrUp(inner.gate_up, 1), up);
}

// Forward gathers the rows of each expert, runs its FFN as dense products, and scatters the scaled
// outputs with index_add_. Experts run one after the other, so a row chosen by several experts
// receives its summands in the order of the experts. Backward gathers again instead of saving the
// inputs.
class SparseFfnFunction : public torch::autograd::Function<SparseFfnFunction> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& gates,
                            const at::Tensor& chosen, const at::Tensor& gate_up,
                            const at::Tensor& down) {
    const ScopedPhase phase(Phase::kFfn);
    const Pairs pairs = Pairs::Of(x, gates, chosen);
    const at::Tensor hidden = at::empty({pairs.rows.size(0), 2 * down.size(1)}, x.options());
    at::Tensor y = at::zeros_like(x);
    for (size_t e = 0; e < pairs.spans.size(); ++e) {
      const ExpertSpan span = pairs.spans[e];
      if (span.count == 0) continue;
      const at::Tensor mine = span.Of(hidden);
      for (int64_t half = 0; half < 2; ++half) {
        GateOrUp(mine, half).copy_(at::mm(span.Of(pairs.inputs), gate_up[half][e].t()));
      }
      const at::Tensor out = at::mm(SwiGluForward(mine), down[e]);
      y.index_add_(0, span.Of(pairs.rows), out.mul_(span.Of(pairs.scales)));
    }
    context->save_for_backward({x, gates, chosen, gate_up, down, hidden});
    return y;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const ScopedPhase phase(Phase::kFfn);
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &chosen = saved[2], &gate_up = saved[3], &down = saved[4];
    const Pairs pairs = Pairs::Of(x, saved[1], chosen);
    const at::Tensor dy = gradients[0].index_select(0, pairs.rows);
    at::Tensor dx = at::zeros_like(x), dscales = at::empty_like(pairs.scales);
    at::Tensor dgate_up = at::zeros_like(gate_up), ddown = at::zeros_like(down);
    for (size_t e = 0; e < pairs.spans.size(); ++e) {
      const ExpertSpan span = pairs.spans[e];
      if (span.count == 0) continue;
      const at::Tensor dinputs =
          BackwardExpert(span.Of(pairs.inputs), span.Of(pairs.scales), span.Of(saved[5]),
                         span.Of(dy), gate_up[0][e], gate_up[1][e], down[e],
                         {{dgate_up[0][e], dgate_up[1][e]}, ddown[e], span.Of(dscales)});
      dx.index_add_(0, span.Of(pairs.rows), dinputs);
    }
    return {dx, Pairs::GateGradients(chosen, dscales), at::Tensor(), dgate_up, ddown};
  }
};

}  // namespace

at::Tensor SparseFfn(const at::Tensor& x, const at::Tensor& gates, const at::Tensor& chosen,
                     const SoftExperts& experts) {
  return SparseFfnFunction::apply(x, gates, chosen, experts.gate_up, experts.down);
}

}  // namespace braid
