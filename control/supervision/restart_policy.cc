#include "control/supervision/restart_policy.h"

#include <algorithm>
#include <cmath>

namespace braid {

std::optional<double> RestartPause(const v1::SupervisionConfig& config, bool retryable,
                                   int32_t restarts) {
  if (!retryable || restarts >= config.max_restarts()) return std::nullopt;
  // For a large count ldexp returns infinity, and the bound applies.
  return std::min(kMaxBackoffSeconds, std::ldexp(config.backoff_seconds(), restarts));
}

}  // namespace braid
