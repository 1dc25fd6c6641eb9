// Limits on how much of a resource each principal may use at a time.
#ifndef BRAID_RPC_PRINCIPAL_QUOTA_H_
#define BRAID_RPC_PRINCIPAL_QUOTA_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace braid {

// Counts places per principal. Thread-safe.
class PrincipalQuota {
 public:
  // A place in use; its destruction releases it. It may outlive the quota.
  using Place = std::shared_ptr<void>;

  // Allows `limit` places per principal; 0: no limit. `what` names the resource and `hint` the
  // remedy in the error.
  PrincipalQuota(std::string what, int64_t limit, std::string hint);

  // Takes a place. RESOURCE_EXHAUSTED at the limit, with the places in use, the limit and the hint.
  absl::StatusOr<Place> Take(const std::string& principal);

 private:
  struct Places;

  const std::string what_;
  const int64_t limit_;
  const std::string hint_;
  const std::shared_ptr<Places> places_;
};

}  // namespace braid

#endif  // BRAID_RPC_PRINCIPAL_QUOTA_H_
