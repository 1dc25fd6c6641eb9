// Decides whether and when a failed run is restarted. Pure.
#ifndef BRAID_CONTROL_SUPERVISION_RESTART_POLICY_H_
#define BRAID_CONTROL_SUPERVISION_RESTART_POLICY_H_

#include <cstdint>
#include <optional>

#include "braid/v1/training.pb.h"

namespace braid {

inline constexpr double kMaxBackoffSeconds = 300;

// Returns the seconds before the next attempt: backoff_seconds, doubled for each of the `restarts`
// that followed one another without a new checkpoint. Absent when there are to be no more attempts,
// because `restarts` has reached max_restarts or the same failure would happen again. Requires a
// `config` with its defaults filled in.
std::optional<double> RestartPause(const v1::SupervisionConfig& config, bool retryable,
                                   int32_t restarts);

}  // namespace braid

#endif  // BRAID_CONTROL_SUPERVISION_RESTART_POLICY_H_
