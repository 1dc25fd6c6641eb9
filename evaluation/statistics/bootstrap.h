// Confidence intervals of ratios of sums by resampling the units of the sums (percentile bootstrap;
// Efron and Tibshirani, An Introduction to the Bootstrap, ch. 13).
#ifndef BRAID_EVALUATION_STATISTICS_BOOTSTRAP_H_
#define BRAID_EVALUATION_STATISTICS_BOOTSTRAP_H_

#include <cstdint>
#include <functional>
#include <span>

#include "braid/v1/evaluation.pb.h"

namespace braid {

struct BootstrapOptions {
  int64_t samples = 1000;
  uint64_t seed = 0;
  double confidence = 0.95;
};

// The contribution of one independent unit (a window, a document, an example) to a ratio, such as
// nats and tokens, or correct answers and 1.
struct RatioUnit {
  double numerator = 0;
  double denominator = 0;
};

// Returns the interval of sum(numerators) / sum(denominators). A pure function of its arguments.
// With fewer than two units both ends are the estimate itself; NaN where no unit has a denominator.
v1::Interval BootstrapRatio(std::span<const RatioUnit> units, const BootstrapOptions& options);

// Returns the interval of the ratio of `a` minus that of `b`. The i-th units of both are a pair and
// are drawn together. Requires equal sizes.
v1::Interval BootstrapDifference(std::span<const RatioUnit> a, std::span<const RatioUnit> b,
                                 const BootstrapOptions& options);

// Returns the interval of any statistic, which is called with the number of times that each of the
// `units` was drawn, `units` draws in total.
v1::Interval Bootstrap(int64_t units, const BootstrapOptions& options,
                       const std::function<double(std::span<const int32_t> draws)>& statistic);

}  // namespace braid

#endif  // BRAID_EVALUATION_STATISTICS_BOOTSTRAP_H_
