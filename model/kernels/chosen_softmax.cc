#include "model/kernels/chosen_softmax.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <array>
#include <vector>

#include "model/kernels/vector_kernels.h"

namespace braid {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Tokens that are processed together, one per column: rows of k scores are shorter than a vector.
// Blocks always have all columns, so that the vector loops treat each token alike: its weights do
// not depend on its place or on the number of threads.
constexpr int64_t kColumns = 64;
// Tokens that one thread processes at a time.
constexpr int64_t kGrain = 8 * kColumns;

// The choice of all tokens: k of N experts each.
struct ChosenRows {
  const int32_t* experts;  // [T, k]
  int64_t num_experts, active;
};

void Weigh(const float* scores, const ChosenRows& choice, int64_t begin, int64_t end,
           float* weights) {
  const int64_t k = choice.active;
  std::vector<float> values(k * kColumns);
  std::array<float, kColumns> maximum, sum, correction;
  for (int64_t first = begin; first < end; first += kColumns) {
    const int64_t count = std::min(kColumns, end - first);
    for (int64_t t = 0; t < count; ++t) {
      const float* const row = scores + (first + t) * choice.num_experts;
      const int32_t* const experts = choice.experts + (first + t) * k;
      for (int64_t i = 0; i < k; ++i) values[i * kColumns + t] = row[experts[i]];
    }
    std::copy_n(values.begin(), kColumns, maximum.begin());
    sum.fill(0);
    Vector().softmax_block(values.data(), maximum.data(), sum.data(), correction.data(), k,
                           kColumns);
    for (int64_t t = 0; t < count; ++t) {
      float* const row = weights + (first + t) * k;
      const float factor = 1 / sum[t];
      for (int64_t i = 0; i < k; ++i) row[i] = values[i * kColumns + t] * factor;
    }
  }
}

// Computes dscore = weight * (dweight - sum over the token of weight * dweight) for what was
// chosen.
void WeighBackward(const float* weights, const float* dweights, const ChosenRows& choice,
                   int64_t begin, int64_t end, float* dscores) {
  const int64_t k = choice.active;
  std::fill_n(dscores + begin * choice.num_experts, (end - begin) * choice.num_experts, 0.0f);
  for (int64_t t = begin; t < end; ++t) {
    const float *const w = weights + t * k, *const dw = dweights + t * k;
    float mean = 0;
    for (int64_t i = 0; i < k; ++i) mean += w[i] * dw[i];
    float* const row = dscores + t * choice.num_experts;
    for (int64_t i = 0; i < k; ++i) row[choice.experts[t * k + i]] = w[i] * (dw[i] - mean);
  }
}

class ChosenSoftmaxFunction : public torch::autograd::Function<ChosenSoftmaxFunction> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& scores,
                            const at::Tensor& chosen) {
    const at::Tensor weights = at::empty(chosen.sizes(), scores.options());
    const ChosenRows choice = {chosen.data_ptr<int32_t>(), scores.size(1), chosen.size(1)};
    const float* const in = scores.data_ptr<float>();
    float* const out = weights.data_ptr<float>();
    at::parallel_for(0, chosen.size(0), kGrain,
                     [&](int64_t begin, int64_t end) { Weigh(in, choice, begin, end, out); });
    context->save_for_backward({weights, chosen});
    context->saved_data["num_experts"] = scores.size(1);
    return weights;
  }

  static variable_list backward(AutogradContext* context, variable_list incoming) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &weights = saved[0], &chosen = saved[1];
    const at::Tensor dweights = incoming[0].contiguous();
    const ChosenRows choice = {chosen.data_ptr<int32_t>(),
                               context->saved_data["num_experts"].toInt(), chosen.size(1)};
    const at::Tensor dscores = at::empty({chosen.size(0), choice.num_experts}, dweights.options());
    const float *const w = weights.data_ptr<float>(), *const dw = dweights.data_ptr<float>();
    float* const out = dscores.data_ptr<float>();
    at::parallel_for(0, chosen.size(0), kGrain, [&](int64_t begin, int64_t end) {
      WeighBackward(w, dw, choice, begin, end, out);
    });
    return {dscores, at::Tensor()};
  }
};

}  // namespace

at::Tensor ChosenSoftmax(const at::Tensor& scores, const at::Tensor& chosen) {
  if (scores.scalar_type() != at::kFloat || !scores.device().is_cpu()) {
    return at::softmax(scores.gather(1, chosen.to(at::kLong)), 1);
  }
  return ChosenSoftmaxFunction::apply(scores.contiguous(), chosen.contiguous());
}

}  // namespace braid
