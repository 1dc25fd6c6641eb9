#include "pipeline/principal_quota.h"

#include "absl/strings/str_cat.h"

namespace braid {

absl::StatusOr<PrincipalQuota::Place> PrincipalQuota::Take(const std::string& principal) {
  const std::lock_guard lock(mutex_);
  const auto found = taken_.find(principal);
  const int64_t taken = found == taken_.end() ? 0 : found->second;
  if (limit_ > 0 && taken >= limit_) {
    return absl::ResourceExhaustedError(absl::StrCat(
        what_, " of ", principal, ": ", taken, " are open, the limit is ", limit_, "; ", hint_));
  }
  taken_[principal] = taken + 1;
  return Place(nullptr, [this, principal](void*) { GiveBack(principal); });
}

void PrincipalQuota::GiveBack(const std::string& principal) {
  const std::lock_guard lock(mutex_);
  const auto found = taken_.find(principal);
  if (--found->second == 0) taken_.erase(found);
}

}  // namespace braid
