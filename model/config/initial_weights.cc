#include "model/config/initial_weights.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string_view>

#include "base/check.h"
#include "base/splitmix.h"

namespace braid {
namespace {

uint64_t StreamKey(uint64_t seed, std::string_view name) {
  uint64_t key = Mix64(seed);
  for (unsigned char c : name) key = Scramble64(key ^ c) + kGolden64;
  return key;
}

// Returns a uniform number in (0, 1), excluding both ends.
double Uniform(uint64_t key, uint64_t counter) {
  const uint64_t bits = Scramble64(key + counter * kGolden64);
  return (static_cast<double>(bits >> 12) + 0.5) * 0x1p-52;
}

}  // namespace

void FillInitialValues(const ParameterSpec& spec, uint64_t seed, std::span<float> values) {
  BRAID_CHECK(static_cast<int64_t>(values.size()) == spec.size) << spec.name;
  const uint64_t key = StreamKey(seed, spec.name);
  if (spec.initial_bound > 0) {
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<float>(spec.initial_bound * (2 * Uniform(key, i) - 1));
    }
    return;
  }
  if (spec.initial_std == 0) {
    std::fill(values.begin(), values.end(), spec.initial_value);
    return;
  }
  // Box-Muller transform: each pair of uniform numbers gives a pair of normal ones.
  for (size_t i = 0; i < values.size(); i += 2) {
    const double radius = spec.initial_std * std::sqrt(-2 * std::log(Uniform(key, i)));
    const double angle = 2 * std::numbers::pi * Uniform(key, i + 1);
    values[i] = static_cast<float>(radius * std::cos(angle));
    if (i + 1 < values.size()) values[i + 1] = static_cast<float>(radius * std::sin(angle));
  }
}

}  // namespace braid
