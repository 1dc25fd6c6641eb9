// Confidence intervals of ratios of sums, by resampling the units that were summed
// (percentile bootstrap; Efron and Tibshirani, An Introduction to the Bootstrap, ch. 13).
#ifndef BRAID_EVALUATION_STATISTICS_BOOTSTRAP_H_
#define BRAID_EVALUATION_STATISTICS_BOOTSTRAP_H_

#include <cstdint>
#include <functional>
#include <span>

#include "braid/v1/analysis.pb.h"

namespace braid {

struct BootstrapOptions {
  int64_t samples = 1000;
  uint64_t seed = 0;
  double confidence = 0.95;
};

// What one independent unit (a window, a document, an example) adds to a statistic, such as
// nats and tokens, or right answers and 1.
struct RatioUnit {
  double numerator = 0;
  double denominator = 0;
};

// Of sum(numerators) / sum(denominators). The same units, seed and samples give the same
// interval. Both ends are the estimate itself with fewer than two units; NaN where no unit has
// a denominator.
v1::Interval BootstrapRatio(std::span<const RatioUnit> units, const BootstrapOptions& options);

// Of the ratio of `a` minus that of `b`, whose units belong together: the i-th of both are
// drawn or left together. Requires equal sizes.
v1::Interval BootstrapDifference(std::span<const RatioUnit> a, std::span<const RatioUnit> b,
                                 const BootstrapOptions& options);

// Of any statistic: `statistic` gets how often each of the `units` was drawn, `units` times in
// all.
v1::Interval Bootstrap(int64_t units, const BootstrapOptions& options,
                       const std::function<double(std::span<const int32_t> draws)>& statistic);

}  // namespace braid

#endif  // BRAID_EVALUATION_STATISTICS_BOOTSTRAP_H_
