#include "evaluation/statistics/wilson_interval.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace braid {

v1::Interval WilsonInterval(int64_t successes, int64_t trials) {
  BRAID_CHECK(trials > 0 && successes >= 0 && successes <= trials) << successes << " " << trials;
  constexpr double kZ = 1.959963984540054;  // the quantile .975 of the normal distribution
  const auto n = static_cast<double>(trials);
  const double share = static_cast<double>(successes) / n;
  const double center = share + kZ * kZ / (2 * n);
  const double half = kZ * std::sqrt(share * (1 - share) / n + kZ * kZ / (4 * n * n));
  v1::Interval interval;
  interval.set_low(std::max(0.0, (center - half) / (1 + kZ * kZ / n)));
  interval.set_high(std::min(1.0, (center + half) / (1 + kZ * kZ / n)));
  return interval;
}

}  // namespace braid
