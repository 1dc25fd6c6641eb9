// What becomes of a job whose attempt failed.
//
//   transient    UNAVAILABLE, DEADLINE_EXCEEDED, ABORTED (a remote embedder), RESOURCE_EXHAUSTED
//                (a full disk, memory), INTERNAL, UNKNOWN, and an end without a word (killed,
//                crashed): queued again, after a pause that grows
//   the rest     is a property of the request or the corpus (INVALID_ARGUMENT, NOT_FOUND,
//                DATA_LOSS, FAILED_PRECONDITION, PERMISSION_DENIED, ...): fails at once
//
// The third attempt in a row that comes no further than one before is the last. One that starts a
// stage or a chunk that none had started before begins the count anew, so that a long job
// outlives many restarts of its machine, and one that always fails does not.
#ifndef BRAID_PIPELINE_JOBS_RETRY_POLICY_H_
#define BRAID_PIPELINE_JOBS_RETRY_POLICY_H_

#include "absl/status/status.h"

namespace braid {

inline constexpr int kMaxFailures = 3;

bool IsTransient(const absl::Status& failure);

// Seconds before the next attempt after `failures` in a row: `first`, then six times as long each.
double RetryDelaySeconds(int failures, double first);

}  // namespace braid

#endif  // BRAID_PIPELINE_JOBS_RETRY_POLICY_H_
