// The resampling step of the bootstrap: draws units with replacement and collects the values of a
// statistic.
#ifndef BRAID_EVALUATION_STATISTICS_RESAMPLING_H_
#define BRAID_EVALUATION_STATISTICS_RESAMPLING_H_

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace braid {

// How often each unit of each stratum counts: draws[stratum][unit].
using Draws = std::vector<std::vector<int32_t>>;

struct ResamplingPlan {
  // Units of each stratum.
  std::vector<int64_t> units = {};
  // From a stratum of n units, n - left_out are drawn. A stratum of one unit is never resampled.
  int64_t left_out = 0;
  int64_t samples = 0;
  uint64_t seed = 0;
};

// Returns draws in which every unit counts once.
Draws EveryUnitOnce(const ResamplingPlan& plan);

// Returns the values of `statistic` on plan.samples resamples, ascending. Values that are not
// finite are omitted: a resample may hold no unit with a denominator. A pure function of its
// arguments.
std::vector<double> ResampledValues(const ResamplingPlan& plan,
                                    const std::function<double(const Draws& draws)>& statistic);

// Returns the quantile `share` in [0, 1] of ascending values, linear between the two nearest.
// Requires at least one value.
double SortedQuantile(std::span<const double> sorted, double share);

}  // namespace braid

#endif  // BRAID_EVALUATION_STATISTICS_RESAMPLING_H_
