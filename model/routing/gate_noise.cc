#include "model/routing/gate_noise.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <cmath>
#include <iterator>
#include <numbers>
#include <vector>

#include "base/check.h"
#include "base/splitmix.h"

namespace braid {
namespace {

constexpr int64_t kScoresPerTask = 4096;

// Returns number(key, counter) for every element, with counters that are unique within a sequence.
template <class Number>
at::Tensor FillScores(const RoutingContext& context, int64_t batch, int64_t length,
                      int64_t num_experts, Number number) {
  std::vector<uint64_t> keys;
  for (int64_t b = 0; b < batch; ++b) keys.push_back(SequenceKey(context, b, batch));
  at::Tensor result = at::empty({batch * length, num_experts}, at::kFloat);
  float* const scores = result.data_ptr<float>();
  const int64_t of_sequence = length * num_experts;
  at::parallel_for(0, result.numel(), kScoresPerTask, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const auto counter = static_cast<uint64_t>(i % of_sequence);
      scores[i] = static_cast<float>(number(keys[i / of_sequence], counter));
    }
  });
  return result;
}

double UniformNumber(uint64_t key, uint64_t counter) {
  return UnitInterval(Scramble64(key + counter * kGolden64));
}

}  // namespace

uint64_t SequenceKey(const RoutingContext& context, int64_t sequence, int64_t batch) {
  const int64_t length = batch / context.passes, pass = sequence / length;
  BRAID_CHECK(context.instances.empty() || std::ssize(context.instances) == length)
      << context.instances.size() << " instances of " << length << " sequences";
  const int64_t place = sequence % length;
  const int64_t instance = context.instances.empty() ? place : context.instances[place];
  const uint64_t step = Mix64(context.seed, static_cast<uint64_t>(context.step));
  const uint64_t key =
      Mix64(Mix64(step, static_cast<uint64_t>(context.layer)), static_cast<uint64_t>(instance));
  return pass == 0 ? key : Mix64(key, static_cast<uint64_t>(pass));
}

at::Tensor HashScores(const at::Tensor& tokens, int layer, int64_t num_experts) {
  const at::Tensor ids = tokens.to(at::kCPU).contiguous();
  const int64_t* const id = ids.data_ptr<int64_t>();
  at::Tensor result = at::empty({ids.numel(), num_experts}, at::kFloat);
  float* next = result.data_ptr<float>();
  for (int64_t t = 0; t < ids.numel(); ++t) {
    const uint64_t key = Mix64(static_cast<uint64_t>(layer), static_cast<uint64_t>(id[t]));
    for (int64_t e = 0; e < num_experts; ++e) {
      *next++ = static_cast<float>(UniformNumber(key, static_cast<uint64_t>(e)));
    }
  }
  return result;
}

at::Tensor SeededScores(uint64_t seed, int layer, int64_t begin, int64_t length,
                        int64_t num_experts) {
  const uint64_t key = Mix64(seed, static_cast<uint64_t>(layer));
  at::Tensor result = at::empty({length, num_experts}, at::kFloat);
  float* const next = result.data_ptr<float>();
  for (int64_t i = 0; i < length * num_experts; ++i) {
    next[i] =
        static_cast<float>(UniformNumber(key, static_cast<uint64_t>(begin * num_experts + i)));
  }
  return result;
}

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
