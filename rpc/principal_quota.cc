#include "rpc/principal_quota.h"

#include <map>
#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"

namespace braid {

struct PrincipalQuota::Places {
  void Release(const std::string& principal) {
    const std::lock_guard lock(mutex);
    const auto found = taken.find(principal);
    if (--found->second == 0) taken.erase(found);
  }

  std::mutex mutex;
  std::map<std::string, int64_t> taken;  // guarded by mutex
};

PrincipalQuota::PrincipalQuota(std::string what, int64_t limit, std::string hint)
    : what_(std::move(what)),
      limit_(limit),
      hint_(std::move(hint)),
      places_(std::make_shared<Places>()) {}

absl::StatusOr<PrincipalQuota::Place> PrincipalQuota::Take(const std::string& principal) {
  const std::lock_guard lock(places_->mutex);
  const auto found = places_->taken.find(principal);
  const int64_t taken = found == places_->taken.end() ? 0 : found->second;
  if (limit_ > 0 && taken >= limit_) {
    return absl::ResourceExhaustedError(absl::StrCat(
        what_, " of ", principal, ": ", taken, " are open, the limit is ", limit_, "; ", hint_));
  }
  places_->taken[principal] = taken + 1;
  // Points to nothing; the deleter, which also runs for null, releases the place.
  return Place(nullptr, [places = places_, principal](void*) { places->Release(principal); });
}

}  // namespace braid
