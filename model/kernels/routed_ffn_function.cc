#include "model/kernels/routed_ffn_function.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include "model/kernels/gradient_accumulator.h"
#include "model/kernels/routed_ffn.h"

namespace braid {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// A call of the kernel with its tensors. Autograd functions accept no undefined tensor, so weights
// of 1 are an empty one.
struct RoutedCall {
  const at::Tensor &x, &chosen, &weights, &gate_up, &down;

  RoutedFfnShape shape() const {
    return {.num_tokens = x.size(0),
            .width = x.size(1),
            .hidden = down.size(1),
            .num_experts = down.size(0),
            .active = chosen.size(1)};
  }
  ChosenExperts experts() const {
    return {chosen.data_ptr<int32_t>(), weights.numel() == 0 ? nullptr : weights.data_ptr<float>()};
  }
  FfnMatrices matrices() const {
    const float* const gate = gate_up.data_ptr<float>();
    return {gate, gate + gate_up.numel() / 2, down.data_ptr<float>()};
  }
};

class RoutedFfnFunction : public torch::autograd::Function<RoutedFfnFunction> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& chosen,
                            const at::Tensor& weights, const at::Tensor& gate_up,
                            const at::Tensor& down, const at::Tensor& /*logit*/,
                            const FfnDropout& dropout, bool differentiate, bool trained) {
    const RoutedCall call{x, chosen, weights, gate_up, down};
    at::Tensor y = at::empty_like(x);
    const at::Tensor kept =
        at::empty({differentiate ? RoutedKeptSize(call.shape(), call.experts()) : 0}, x.options());
    RoutedFfnForward(call.shape(), x.data_ptr<float>(), call.experts(), call.matrices(),
                     differentiate ? kept.data_ptr<float>() : nullptr, y.data_ptr<float>(),
                     at::get_num_threads(), dropout.ForKernel());
    SaveDropout(dropout, context);
    context->save_for_backward({x, chosen, weights, gate_up, down, kept});
    context->saved_data["trained"] = trained;
    context->saved_data["weighted"] = weights.requires_grad();
    return y;
  }

  static variable_list backward(AutogradContext* context, variable_list incoming) {
    const variable_list saved = context->get_saved_variables();
    const RoutedCall call{saved[0], saved[1], saved[2], saved[3], saved[4]};
    const bool trained = context->saved_data["trained"].toBool();
    const bool weighted = context->saved_data["weighted"].toBool();
    const at::Tensor dy = incoming[0].contiguous(), dx = at::empty_like(call.x);
    const at::Tensor dweights = weighted ? at::empty_like(call.weights) : at::Tensor();
    GradientAccumulator gate_up, down;
    const FfnDropout dropout = SavedDropout(context);
    double dlogit = 0;
    FfnMatrixGradients gradients = {nullptr, nullptr, nullptr};
    if (trained) {
      gate_up = AccumulatorOf(call.gate_up);
      down = AccumulatorOf(call.down);
      float* const gate = gate_up.buffer.data_ptr<float>();
      gradients = {gate, gate + gate_up.buffer.numel() / 2, down.buffer.data_ptr<float>()};
    }
    RoutedFfnBackward(call.shape(), call.x.data_ptr<float>(), call.experts(), call.matrices(),
                      saved[5].data_ptr<float>(), dy.data_ptr<float>(), dx.data_ptr<float>(),
                      weighted ? dweights.data_ptr<float>() : nullptr, gradients,
                      at::get_num_threads(), dropout.ForKernel(), &dlogit);
    return {dx,           at::Tensor(),
            dweights,     gate_up.report,
            down.report,  LogitGradient(dropout, dlogit),
            at::Tensor(), at::Tensor(),
            at::Tensor()};
  }
};

}  // namespace

at::Tensor FusedRoutedFfn(const at::Tensor& x, const at::Tensor& chosen, const at::Tensor& weights,
                          const SoftExperts& experts, const FfnDropout& dropout) {
  // Decided here, because gradient mode is off within forward.
  const bool trained = at::GradMode::is_enabled() &&
                       (experts.gate_up.requires_grad() || experts.down.requires_grad());
  const bool differentiate =
      trained || (at::GradMode::is_enabled() &&
                  (x.requires_grad() || (weights.defined() && weights.requires_grad()) ||
                   dropout.LearnsRate()));
  const at::Tensor factors = weights.defined() ? weights.contiguous() : at::empty({0}, x.options());
  return RoutedFfnFunction::apply(x.contiguous(), chosen.contiguous(), factors,
                                  experts.gate_up.contiguous(), experts.down.contiguous(),
                                  dropout.LogitArgument(x.options()), dropout, differentiate,
                                  trained);
}

}  // namespace braid
