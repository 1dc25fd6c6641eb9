#include "evaluation/statistics/bootstrap.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/splitmix.h"

namespace braid {
namespace {

double Ratio(std::span<const RatioUnit> units, std::span<const int32_t> draws) {
  double numerator = 0;
  double denominator = 0;
  for (size_t i = 0; i < units.size(); ++i) {
    numerator += draws[i] * units[i].numerator;
    denominator += draws[i] * units[i].denominator;
  }
  return numerator / denominator;
}

// How often each of `units` units comes up in resample `sample`.
void Draw(uint64_t seed, int64_t sample, std::vector<int32_t>* draws) {
  const uint64_t units = draws->size();
  std::ranges::fill(*draws, 0);
  for (uint64_t i = 0; i < units; ++i) {
    const uint64_t bits = Mix64(seed, static_cast<uint64_t>(sample) * units + i);
    // Never `units`: the product of a fraction below 1 rounds down.
    ++(*draws)[static_cast<size_t>(UnitInterval(bits) * static_cast<double>(units))];
  }
}

// Linear between the two nearest; `sorted` is not empty.
double Quantile(std::span<const double> sorted, double share) {
  const double position = share * static_cast<double>(sorted.size() - 1);
  const size_t below = static_cast<size_t>(position);
  const size_t above = std::min(below + 1, sorted.size() - 1);
  return std::lerp(sorted[below], sorted[above], position - static_cast<double>(below));
}

}  // namespace

v1::Interval Bootstrap(int64_t units, const BootstrapOptions& options,
                       const std::function<double(std::span<const int32_t>)>& statistic) {
  v1::Interval interval;
  std::vector<int32_t> draws(static_cast<size_t>(units), 1);
  const double estimate = statistic(draws);
  interval.set_low(estimate);
  interval.set_high(estimate);
  if (units < 2) return interval;
  std::vector<double> values;
  for (int64_t sample = 0; sample < options.samples; ++sample) {
    Draw(options.seed, sample, &draws);
    const double value = statistic(draws);
    // A resample may hold no unit with a denominator.
    if (std::isfinite(value)) values.push_back(value);
  }
  if (values.empty()) return interval;
  std::ranges::sort(values);
  const double tail = (1 - options.confidence) / 2;
  interval.set_low(Quantile(values, tail));
  interval.set_high(Quantile(values, 1 - tail));
  return interval;
}

v1::Interval BootstrapRatio(std::span<const RatioUnit> units, const BootstrapOptions& options) {
  return Bootstrap(static_cast<int64_t>(units.size()), options,
                   [&](std::span<const int32_t> draws) { return Ratio(units, draws); });
}

v1::Interval BootstrapDifference(std::span<const RatioUnit> a, std::span<const RatioUnit> b,
                                 const BootstrapOptions& options) {
  return Bootstrap(static_cast<int64_t>(a.size()), options, [&](std::span<const int32_t> draws) {
    return Ratio(a, draws) - Ratio(b, draws);
  });
}

}  // namespace braid
