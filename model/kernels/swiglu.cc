#include "model/kernels/swiglu.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

namespace braid {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

at::Tensor Half(const at::Tensor& gate_up, int64_t which) {
  const int64_t width = gate_up.size(-1) / 2;
  return gate_up.narrow(-1, which * width, width);
}

// A function of its own, because autograd would save silu(g) [..., F] in addition to the input.
class SwiGluFunction : public torch::autograd::Function<SwiGluFunction> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& gate_up) {
    context->save_for_backward({gate_up});
    return SwiGluForward(gate_up);
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    return {SwiGluBackward(context->get_saved_variables()[0], gradients[0]).gate_up};
  }
};

}  // namespace

at::Tensor SwiGluForward(const at::Tensor& gate_up) {
  return at::silu(Half(gate_up, 0)).mul_(Half(gate_up, 1));
}

SwiGluGradients SwiGluBackward(const at::Tensor& gate_up, const at::Tensor& gradient) {
  const at::Tensor gate = Half(gate_up, 0), up = Half(gate_up, 1);
  at::Tensor result = at::empty_like(gate_up);
  at::Tensor dgate = Half(result, 0), dup = Half(result, 1);
  at::Tensor activation = at::silu(gate);
  at::mul_out(dup, gradient, activation);
  at::silu_backward_out(dgate, gradient * up, gate);
  activation.mul_(up);
  return {result, activation};
}

at::Tensor SwiGlu(const at::Tensor& gate_up) { return SwiGluFunction::apply(gate_up); }

}  // namespace braid
