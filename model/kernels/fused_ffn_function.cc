#include "model/kernels/fused_ffn_function.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include "model/kernels/fused_ffn.h"
#include "model/kernels/gradient_accumulator.h"

namespace braid {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Autograd functions accept no undefined tensor, so the routing of a dense FFN is an empty one.
bool IsDense(const at::Tensor& routing) { return routing.numel() == 0; }

FfnShape ShapeOf(const at::Tensor& x, const at::Tensor& routing, const at::Tensor& down) {
  const int64_t segments = IsDense(routing) ? 1 : routing.size(0);
  const int64_t experts = IsDense(routing) ? 1 : routing.size(1);
  return {.num_segments = segments,
          .segment_tokens = x.size(0) / segments,
          .width = x.size(1),
          .hidden = down.size(-2),
          .num_experts = experts};
}

// Returns nullptr for an empty tensor.
float* Data(const at::Tensor& tensor) {
  return tensor.numel() == 0 ? nullptr : tensor.data_ptr<float>();
}

FfnMatrices MatricesOf(const at::Tensor& gate_up, const at::Tensor& down) {
  const float* gate = gate_up.data_ptr<float>();
  return {gate, gate + gate_up.numel() / 2, down.data_ptr<float>()};
}

class FusedFfnFunction : public torch::autograd::Function<FusedFfnFunction> {
 public:
  // The kernel reads the logit from `dropout`; it is also an argument so that it can have a
  // gradient.
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x,
                            const at::Tensor& routing, const at::Tensor& gate_up,
                            const at::Tensor& down, const at::Tensor& /*logit*/,
                            const FfnDropout& dropout, bool differentiate) {
    const FfnShape shape = ShapeOf(x, routing, down);
    at::Tensor y = at::empty_like(x);
    const at::Tensor kept = at::empty({differentiate ? shape.kept_size() : 0}, x.options());
    FusedFfnForward(shape, Data(x), Data(routing), MatricesOf(gate_up, down), Data(kept), Data(y),
                    at::get_num_threads(), dropout.ForKernel());
    SaveDropout(dropout, context);
    context->save_for_backward({x, routing, gate_up, down, kept});
    return y;
  }

  static variable_list backward(AutogradContext* context, variable_list incoming) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &routing = saved[1], &kept = saved[4];
    const at::Tensor dy = incoming[0].contiguous();
    const at::Tensor dx = at::empty_like(x), drouting = at::empty_like(routing);
    // The routing's gradient needs those of the experts, even where these are not trained.
    const bool trained = !IsDense(routing) || saved[2].requires_grad() || saved[3].requires_grad();
    GradientAccumulator gate_up, down;
    FfnMatrixGradients gradients = {nullptr, nullptr, nullptr};
    if (trained) {
      gate_up = AccumulatorOf(saved[2]);
      down = AccumulatorOf(saved[3]);
      float* const gate = gate_up.buffer.data_ptr<float>();
      gradients = {gate, gate + gate_up.buffer.numel() / 2, down.buffer.data_ptr<float>()};
    }
    const FfnDropout dropout = SavedDropout(context);
    double dlogit = 0;
    FusedFfnBackward(ShapeOf(x, routing, saved[3]), Data(x), Data(routing),
                     MatricesOf(saved[2], saved[3]), Data(kept), Data(dy), Data(dx), Data(drouting),
                     gradients, at::get_num_threads(), dropout.ForKernel(), &dlogit);
    return {dx,
            IsDense(routing) ? at::Tensor() : drouting,
            gate_up.report,
            down.report,
            LogitGradient(dropout, dlogit),
            at::Tensor(),
            at::Tensor()};
  }
};

}  // namespace

bool CanFuseFfn(const at::Tensor& x) {
  return x.device().is_cpu() && x.scalar_type() == at::kFloat && HasFusedFfn();
}

at::Tensor FusedFfn(const at::Tensor& x, const at::Tensor& routing, const at::Tensor& gate_up,
                    const at::Tensor& down, const FfnDropout& dropout) {
  // Decided here, because gradient mode is off within forward.
  const bool differentiate =
      at::GradMode::is_enabled() &&
      (x.requires_grad() || gate_up.requires_grad() || down.requires_grad() ||
       (routing.defined() && routing.requires_grad()) || dropout.LearnsRate());
  const at::Tensor weights = routing.defined() ? routing.contiguous() : at::empty({0}, x.options());
  return FusedFfnFunction::apply(x.contiguous(), weights, gate_up.contiguous(), down.contiguous(),
                                 dropout.LogitArgument(x.options()), dropout, differentiate);
}

}  // namespace braid
