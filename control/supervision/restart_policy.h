// Whether and when a run is started again after a failure. Pure.
#ifndef BRAID_CONTROL_SUPERVISION_RESTART_POLICY_H_
#define BRAID_CONTROL_SUPERVISION_RESTART_POLICY_H_

#include <cstdint>
#include <optional>

#include "braid/v1/training.pb.h"

namespace braid {

inline constexpr double kMaxBackoffSeconds = 300;

// The pause before the next attempt; absent when there is to be none: `restarts` without a new
// checkpoint between them are enough, or the failure is one that would come again. `config` with
// its defaults filled in.
std::optional<double> RestartPause(const v1::SupervisionConfig& config, bool retryable,
                                   int32_t restarts);

}  // namespace braid

#endif  // BRAID_CONTROL_SUPERVISION_RESTART_POLICY_H_
