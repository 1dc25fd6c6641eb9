#include "trainer/adamw.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>
#include <vector>

#include "base/check.h"

namespace braid {
namespace {

// Elements per work item. Parameters differ widely in size; blocks of one size divide evenly over
// the threads.
constexpr size_t kAdamwBlock = 1 << 15;

// The constants of one update, in the precision it is computed in.
struct Constants {
  float factor, beta1, beta2, rest1, rest2, rate, root2, epsilon, keep;
};

// The factors of the learning rate of a parameter's updates and of its weight decay.
using RateFactors = std::pair<double, double>;

RateFactors FactorsOf(const AdamwParameter& p) { return {p.rate_factor, p.decay_factor}; }

Constants ConstantsOf(const AdamwSettings& settings, double learning_rate, RateFactors factors,
                      int64_t step, double gradient_factor) {
  // Computed in double and rounded once, because 1 - beta^t loses digits in float where beta is
  // near 1.
  const double t = static_cast<double>(step);
  const double correction1 = 1.0 - std::pow(settings.beta1, t);
  const double correction2 = 1.0 - std::pow(settings.beta2, t);
  return {.factor = static_cast<float>(gradient_factor),
          .beta1 = static_cast<float>(settings.beta1),
          .beta2 = static_cast<float>(settings.beta2),
          .rest1 = static_cast<float>(1.0 - settings.beta1),
          .rest2 = static_cast<float>(1.0 - settings.beta2),
          .rate = static_cast<float>(learning_rate * factors.first / correction1),
          .root2 = static_cast<float>(1.0 / std::sqrt(correction2)),
          .epsilon = static_cast<float>(settings.epsilon),
          .keep = static_cast<float>(1.0 - learning_rate * factors.second * settings.weight_decay)};
}

// One pass over memory per element: the update is bound by memory bandwidth, so the gradient scale
// (clipping), both moments, decay and the new value are computed together. The bias corrections are
// folded into two constants: rate = learning_rate / (1 - beta1^t) and root2 = 1 / sqrt(1 -
// beta2^t).
void UpdateBlock(const Constants& c, const AdamwParameter& block) {
  float* __restrict value = block.value.data();
  const float* __restrict gradient = block.gradient.data();
  float* __restrict m = block.m.data();
  float* __restrict v = block.v.data();
  const float keep = block.decay ? c.keep : 1.0f;
  const size_t n = block.value.size();
#pragma omp simd
  for (size_t i = 0; i < n; ++i) {
    const float g = c.factor * gradient[i];
    m[i] = c.beta1 * m[i] + c.rest1 * g;
    v[i] = c.beta2 * v[i] + c.rest2 * g * g;
    value[i] = keep * value[i] - c.rate * m[i] / (std::sqrt(v[i]) * c.root2 + c.epsilon);
  }
}

void CutIntoBlocks(const AdamwParameter& p, std::vector<AdamwParameter>* blocks) {
  const size_t n = p.value.size();
  BRAID_CHECK(p.gradient.size() == n && p.m.size() == n && p.v.size() == n)
      << n << " " << p.gradient.size() << " " << p.m.size() << " " << p.v.size();
  for (size_t begin = 0; begin < n; begin += kAdamwBlock) {
    const size_t size = std::min(kAdamwBlock, n - begin);
    blocks->push_back({p.value.subspan(begin, size), p.gradient.subspan(begin, size),
                       p.m.subspan(begin, size), p.v.subspan(begin, size), p.decay, p.rate_factor,
                       p.decay_factor});
  }
}

}  // namespace

void AdamwStep(const AdamwSettings& settings, double learning_rate, int64_t step,
               double gradient_factor, std::span<const AdamwParameter> parameters) {
  BRAID_CHECK(step >= 1) << step;
  std::map<RateFactors, Constants> constants;
  for (const AdamwParameter& p : parameters) {
    constants.try_emplace(
        FactorsOf(p), ConstantsOf(settings, learning_rate, FactorsOf(p), step, gradient_factor));
  }
  std::vector<AdamwParameter> blocks;
  for (const AdamwParameter& parameter : parameters) CutIntoBlocks(parameter, &blocks);
  const int64_t num_blocks = static_cast<int64_t>(blocks.size());
#pragma omp parallel for schedule(static) if (num_blocks > 1)
  for (int64_t b = 0; b < num_blocks; ++b) {
    UpdateBlock(constants.at(FactorsOf(blocks[b])), blocks[b]);
  }
}

}  // namespace braid
