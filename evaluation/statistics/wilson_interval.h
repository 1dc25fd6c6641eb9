// Confidence intervals of shares.
#ifndef BRAID_EVALUATION_STATISTICS_WILSON_INTERVAL_H_
#define BRAID_EVALUATION_STATISTICS_WILSON_INTERVAL_H_

#include <cstdint>

#include "braid/v1/evaluation.pb.h"

namespace braid {

// Returns the 95 % score interval of a share of `successes` in `trials` independent trials (Wilson,
// JASA 1927). Requires 0 <= successes <= trials and trials > 0.
v1::Interval WilsonInterval(int64_t successes, int64_t trials);

}  // namespace braid

#endif  // BRAID_EVALUATION_STATISTICS_WILSON_INTERVAL_H_
