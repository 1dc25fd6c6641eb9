// Waits for a service that is away for a moment, such as one that is being restarted.
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

// How long a service may be away while an experiment has runs or scorings that it can go on with.
inline constexpr std::chrono::milliseconds kServicePatience = std::chrono::minutes(5);
// What progress says meanwhile.
inline constexpr char kServiceAwayText[] = "the service is away; waiting for it";

// Not thread-safe.
class ServicePatience {
 public:
  explicit ServicePatience(std::chrono::milliseconds limit) : limit_(limit) {}

  // Whether the last call lost the service.
  bool is_lost() const { return is_lost_; }

  // Whether to ask again after a call that ended so: the service was lost (LostServer), and of the
  // calls in a row that lost it the first ended less than the limit ago. Any other ending is an
  // answer.
  bool Waits(const absl::Status& ended) {
    const auto now = std::chrono::steady_clock::now();
    if (!is_lost_) lost_at_ = now;
    is_lost_ = LostServer(ended);
    return is_lost_ && now - lost_at_ < limit_;
  }

 private:
  const std::chrono::milliseconds limit_;
  bool is_lost_ = false;
  // When the first call in a row was lost.
  std::chrono::steady_clock::time_point lost_at_ = {};
};

}  // namespace braid

#endif  // BRAID_RPC_SERVICE_PATIENCE_H_
