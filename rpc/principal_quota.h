// How much of something each principal has at a time.
#ifndef BRAID_RPC_PRINCIPAL_QUOTA_H_
#define BRAID_RPC_PRINCIPAL_QUOTA_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace braid {

// Thread-safe.
class PrincipalQuota {
 public:
  // Given back when it goes; it may outlive the quota.
  using Place = std::shared_ptr<void>;

  // `limit` of each principal; 0: none. `what` and `hint` stand in the error.
  PrincipalQuota(std::string what, int64_t limit, std::string hint);

  // RESOURCE_EXHAUSTED at the limit, with what is used, the limit and the hint.
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
