// The policy for failed attempts of a job.
//
//   transient    UNAVAILABLE, DEADLINE_EXCEEDED, ABORTED (a remote embedder), RESOURCE_EXHAUSTED
//                (a full disk, memory), INTERNAL, UNKNOWN, and the death of the process (killed,
//                crashed): the job is queued again, after an increasing delay
//   permanent    all other codes (INVALID_ARGUMENT, NOT_FOUND, DATA_LOSS, FAILED_PRECONDITION,
//                PERMISSION_DENIED, ...), which the request or the corpus causes: the job fails
//
// A job also fails after kMaxFailures consecutive transient failures without progress. An attempt
// that starts a stage or a chunk that no earlier attempt had started resets the count, so that a
// long job survives many restarts of its machine, while a job that always fails at the same point
// does not repeat forever.
#ifndef BRAID_PIPELINE_JOBS_RETRY_POLICY_H_
#define BRAID_PIPELINE_JOBS_RETRY_POLICY_H_

#include "absl/status/status.h"

namespace braid {

inline constexpr int kMaxFailures = 3;
// The longest delay of a retry.
inline constexpr double kMaxRetryDelaySeconds = 600;

// Returns whether a job with this error is retried.
bool IsTransient(const absl::Status& failure);

// Returns the seconds to wait after `failures` consecutive failures: first * 6^(failures - 1), at
// most kMaxRetryDelaySeconds.
double RetryDelaySeconds(int failures, double first);

}  // namespace braid

#endif  // BRAID_PIPELINE_JOBS_RETRY_POLICY_H_
