// Retries of calls to a service that is unavailable for a short time, for example while it
// restarts, or was stopped.
//
//   ServicePatience patience(kServicePatience);
//   absl::Status ended = Ask();
//   while (patience.Waits(ended)) { ... pause; ended = Ask(); }
#ifndef BRAID_RPC_SERVICE_PATIENCE_H_
#define BRAID_RPC_SERVICE_PATIENCE_H_

#include <chrono>

#include "absl/status/status.h"
#include "rpc/grpc_call.h"

namespace braid {

// Maximum time that an experiment with runs in progress waits for an unavailable service.
inline constexpr std::chrono::milliseconds kServicePatience = std::chrono::minutes(5);
// Progress message during the wait.
inline constexpr char kServiceAwayText[] = "service unavailable; waiting";

// Decides whether a failed call should be repeated. Not thread-safe.
class ServicePatience {
 public:
  explicit ServicePatience(std::chrono::milliseconds limit) : limit_(limit) {}

  // Returns whether the last call failed because the service was unavailable.
  bool is_lost() const { return is_lost_; }

  // Returns whether a call that ended with this status should be repeated: the service was
  // unavailable (LostServer), and less than the limit has passed since the first of the consecutive
  // calls that found it so.
  bool Waits(const absl::Status& ended) {
    const auto now = std::chrono::steady_clock::now();
    if (!is_lost_) lost_at_ = now;
    is_lost_ = LostServer(ended);
    return is_lost_ && now - lost_at_ < limit_;
  }

 private:
  const std::chrono::milliseconds limit_;
  bool is_lost_ = false;
  // Time at which the first of the consecutive failed calls ended.
  std::chrono::steady_clock::time_point lost_at_ = {};
};

}  // namespace braid

#endif  // BRAID_RPC_SERVICE_PATIENCE_H_
