#include "model/rank_sum_function.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <string>

namespace braid {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

at::Tensor Summed(const at::Tensor& x, const RankSum& sum) {
  // Always a copy: `sum` works in place, and x may already be doubles on the CPU.
  at::Tensor total = x.detach().to(at::kCPU, at::kDouble).contiguous().clone();
  const absl::Status status = sum({total.data_ptr<double>(), static_cast<size_t>(total.numel())});
  TORCH_CHECK(status.ok(), "sum over ranks: ", std::string(status.message()));
  return total.to(x.device());
}

class RankSumFunction : public torch::autograd::Function<RankSumFunction> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const RankSum* sum) {
    // saved_data cannot hold this pointer, so its address is stored as an integer.
    context->saved_data["sum"] = static_cast<int64_t>(reinterpret_cast<intptr_t>(sum));
    return Summed(x, *sum);
  }

  static variable_list backward(AutogradContext* context, variable_list incoming) {
    const auto* const sum =
        reinterpret_cast<const RankSum*>(static_cast<intptr_t>(context->saved_data["sum"].toInt()));
    return {Summed(incoming[0], *sum), at::Tensor()};
  }
};

}  // namespace

at::Tensor SumOverRanks(const at::Tensor& x, const RankSum& sum) {
  return RankSumFunction::apply(x, &sum);
}

}  // namespace braid
