#include "model/kernels/rms_norm.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>

#include "model/kernels/task_grain.h"
#include "model/kernels/vector_kernels.h"

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
    // The memory of dx holds dy n until both sums over it are taken.
    at::Tensor dx = gradients[0] * normalized;
    const at::Tensor dweight = dx.sum(0);
    const at::Tensor projection = at::mv(dx, weight).div_(x.size(-1)).unsqueeze_(-1);
    at::mul_out(dx, gradients[0], weight);
    dx.addcmul_(normalized, projection, -1).mul_(scale);
    return {dx, dweight, at::Tensor()};
  }
};

// Rows whose gradients of the weights form one partial sum. The number is fixed, so that the order
// of the additions does not depend on the number of threads.
constexpr int64_t kRowsPerPart = 256;

// The same in single precision on a processor, in one pass over the rows.
class FusedRmsNormFunction : public torch::autograd::Function<FusedRmsNormFunction> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                            double epsilon) {
    const at::Tensor y = at::empty_like(x), scale = at::empty({x.size(0)}, x.options());
    const int64_t width = x.size(1);
    const float *in = x.data_ptr<float>(), *w = weight.data_ptr<float>();
    float *out = y.data_ptr<float>(), *scales = scale.data_ptr<float>();
    at::parallel_for(0, x.size(0), GrainOf(kTaskElements, width), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        scales[row] = Vector().rms_norm(in + row * width, w, static_cast<float>(epsilon), width,
                                        out + row * width);
      }
    });
    context->save_for_backward({x, weight, scale});
    return y;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], dy = gradients[0].contiguous(), dx = at::empty_like(x);
    const int64_t rows = x.size(0), width = x.size(1);
    const int64_t num_parts = (rows + kRowsPerPart - 1) / kRowsPerPart;
    const at::Tensor parts = at::zeros({num_parts, width}, x.options());
    const float *in = x.data_ptr<float>(), *w = saved[1].data_ptr<float>(),
                *scales = saved[2].data_ptr<float>(), *upstream = dy.data_ptr<float>();
    float *out = dx.data_ptr<float>(), *sums = parts.data_ptr<float>();
    const int64_t grain = GrainOf(kTaskElements, kRowsPerPart * width);
    at::parallel_for(0, num_parts, grain, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin * kRowsPerPart; row < std::min(end * kRowsPerPart, rows); ++row) {
        Vector().rms_norm_backward(in + row * width, w, scales[row], upstream + row * width, width,
                                   out + row * width, sums + row / kRowsPerPart * width);
      }
    });
    return {dx, parts.sum(0), at::Tensor()};
  }
};

bool CanFuseNorm(const at::Tensor& x) {
  return x.device().is_cpu() && x.scalar_type() == at::kFloat;
}

}  // namespace

at::Tensor RmsNorm(const at::Tensor& x, const at::Tensor& weight, double epsilon) {
  if (CanFuseNorm(x)) return FusedRmsNormFunction::apply(x.contiguous(), weight, epsilon);
  return RmsNormFunction::apply(x, weight, epsilon);
}

}  // namespace braid
