// How much of something each principal has at a time.
#ifndef BRAID_PIPELINE_PRINCIPAL_QUOTA_H_
#define BRAID_PIPELINE_PRINCIPAL_QUOTA_H_

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "absl/status/statusor.h"

namespace braid {

// Thread-safe. Outlives the places that it gives.
class PrincipalQuota {
 public:
  // Given back when it goes.
  using Place = std::shared_ptr<void>;

  // `limit` of each principal; 0: none. `what` and `hint` stand in the error.
  PrincipalQuota(std::string what, int64_t limit, std::string hint)
      : what_(std::move(what)), limit_(limit), hint_(std::move(hint)) {}

  // RESOURCE_EXHAUSTED at the limit, with what is used, the limit and the hint.
  absl::StatusOr<Place> Take(const std::string& principal);

 private:
  void GiveBack(const std::string& principal);

  const std::string what_;
  const int64_t limit_;
  const std::string hint_;
  std::mutex mutex_;
  std::map<std::string, int64_t> taken_;  // guarded by mutex_
};

}  // namespace braid

#endif  // BRAID_PIPELINE_PRINCIPAL_QUOTA_H_
