#include "evaluation/statistics/resampling.h"

#include <algorithm>
#include <cmath>

#include "base/splitmix.h"

namespace braid {
namespace {

// Generates random numbers below a bound, each a pure function of seed and position.
class UnitSampler {
 public:
  explicit UnitSampler(uint64_t seed) : seed_(seed) {}

  size_t Next(size_t bound) {
    // Never `bound`: the product of a fraction below 1 rounds down.
    return static_cast<size_t>(UnitInterval(Mix64(seed_, position_++)) *
                               static_cast<double>(bound));
  }

 private:
  const uint64_t seed_;
  uint64_t position_ = 0;
};

void Redraw(int64_t left_out, UnitSampler& sampler, Draws* draws) {
  for (std::vector<int32_t>& stratum : *draws) {
    if (stratum.size() < 2) continue;
    std::ranges::fill(stratum, 0);
    const int64_t count = std::ssize(stratum) - left_out;
    for (int64_t i = 0; i < count; ++i) ++stratum[sampler.Next(stratum.size())];
  }
}

}  // namespace

Draws EveryUnitOnce(const ResamplingPlan& plan) {
  Draws draws;
  for (const int64_t units : plan.units) draws.emplace_back(units, 1);
  return draws;
}

std::vector<double> ResampledValues(const ResamplingPlan& plan,
                                    const std::function<double(const Draws&)>& statistic) {
  UnitSampler sampler(plan.seed);
  Draws draws = EveryUnitOnce(plan);
  std::vector<double> values;
  for (int64_t sample = 0; sample < plan.samples; ++sample) {
    Redraw(plan.left_out, sampler, &draws);
    const double value = statistic(draws);
    if (std::isfinite(value)) values.push_back(value);
  }
  std::ranges::sort(values);
  return values;
}

double SortedQuantile(std::span<const double> sorted, double share) {
  const double position = share * static_cast<double>(sorted.size() - 1);
  const size_t below = static_cast<size_t>(position);
  const size_t above = std::min(below + 1, sorted.size() - 1);
  return std::lerp(sorted[below], sorted[above], position - static_cast<double>(below));
}

}  // namespace braid
