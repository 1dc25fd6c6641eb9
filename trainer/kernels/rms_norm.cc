#include "trainer/kernels/rms_norm.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

namespace braid {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

class RmsNormFunction : public torch::autograd::Function<RmsNormFunction> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                            double epsilon) {
    const at::Tensor scale = (x * x).mean(-1, /*keepdim=*/true).add_(epsilon).rsqrt_();
    context->save_for_backward({x, weight, scale});
    return (x * scale).mul_(weight);
  }

  // With n = x * scale: dw = sum_t dy n and dx = scale * (dy w - n mean(dy w n)).
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &weight = saved[1], &scale = saved[2];
    const at::Tensor normalized = x * scale;
    at::Tensor dx = gradients[0] * normalized;
    const at::Tensor dweight = dx.sum(0);
    const at::Tensor projection = at::mv(dx, weight).div_(x.size(-1)).unsqueeze_(-1);
    at::mul_out(dx, gradients[0], weight);
    dx.addcmul_(normalized, projection, -1).mul_(scale);
    return {dx, dweight, at::Tensor()};
  }
};

}  // namespace

at::Tensor RmsNorm(const at::Tensor& x, const at::Tensor& weight, double epsilon) {
  return RmsNormFunction::apply(x, weight, epsilon);
}

}  // namespace braid
