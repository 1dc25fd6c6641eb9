#include "evaluation/statistics/bootstrap.h"

#include <vector>

#include "evaluation/statistics/resampling.h"

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

}  // namespace

v1::Interval Bootstrap(int64_t units, const BootstrapOptions& options,
                       const std::function<double(std::span<const int32_t>)>& statistic) {
  const ResamplingPlan plan = {.units = {units}, .samples = options.samples, .seed = options.seed};
  v1::Interval interval;
  const double estimate = statistic(EveryUnitOnce(plan)[0]);
  interval.set_low(estimate);
  interval.set_high(estimate);
  if (units < 2) return interval;
  const std::vector<double> values =
      ResampledValues(plan, [&](const Draws& draws) { return statistic(draws[0]); });
  if (values.empty()) return interval;
  const double tail = (1 - options.confidence) / 2;
  interval.set_low(SortedQuantile(values, tail));
  interval.set_high(SortedQuantile(values, 1 - tail));
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
