#include "pipeline/jobs/retry_policy.h"

#include <algorithm>
#include <cmath>

namespace braid {

bool IsTransient(const absl::Status& failure) {
  switch (failure.code()) {
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kAborted:
    case absl::StatusCode::kResourceExhausted:
    case absl::StatusCode::kInternal:
    case absl::StatusCode::kUnknown:
      return true;
    default:
      return false;
  }
}

double RetryDelaySeconds(int failures, double first) {
  return std::min(kMaxRetryDelaySeconds, first * std::pow(6, failures - 1));
}

}  // namespace braid
