#include "model/routing/gate_noise.h"

#include <ATen/ATen.h>

#include <cmath>
#include <numbers>

#include "base/check.h"
#include "base/splitmix.h"

namespace braid {
namespace {

uint64_t SequenceKey(const RoutingContext& context, int64_t sequence) {
  const int64_t instance = context.instances.empty() ? sequence : context.instances[sequence];
  const uint64_t step = Mix64(context.seed, static_cast<uint64_t>(context.step));
  return Mix64(Mix64(step, static_cast<uint64_t>(context.layer)), static_cast<uint64_t>(instance));
}

// Returns number(key, counter) for every element, with counters that are unique within a sequence.
template <class Number>
at::Tensor FillScores(const RoutingContext& context, int64_t batch, int64_t length,
                      int64_t num_experts, Number number) {
  BRAID_CHECK(context.instances.empty() || static_cast<int64_t>(context.instances.size()) == batch)
      << context.instances.size() << " instances of " << batch << " sequences";
  at::Tensor result = at::empty({batch * length, num_experts}, at::kFloat);
  float* next = result.data_ptr<float>();
  for (int64_t b = 0; b < batch; ++b) {
    const uint64_t key = SequenceKey(context, b);
    for (int64_t i = 0; i < length * num_experts; ++i) {
      *next++ = static_cast<float>(number(key, static_cast<uint64_t>(i)));
    }
  }
  return result;
}

double UniformNumber(uint64_t key, uint64_t counter) {
  return UnitInterval(Scramble64(key + counter * kGolden64));
}

}  // namespace

at::Tensor UniformScores(const RoutingContext& context, int64_t batch, int64_t length,
                         int64_t num_experts) {
  return FillScores(context, batch, length, num_experts, UniformNumber);
}

at::Tensor NormalNoise(const RoutingContext& context, int64_t batch, int64_t length,
                       int64_t num_experts) {
  return FillScores(context, batch, length, num_experts, [](uint64_t key, uint64_t counter) {
    const double radius = std::sqrt(-2 * std::log(1 - UniformNumber(key, 2 * counter)));
    return radius * std::cos(2 * std::numbers::pi * UniformNumber(key, 2 * counter + 1));
  });
}

}  // namespace braid
