// The states of a corpus job and their transitions:
//
//   QUEUED -> RUNNING -> SUCCEEDED | FAILED | CANCELLED
//   QUEUED -> CANCELLED
//   RUNNING -> QUEUED              interrupted, or to be retried
//   FAILED | CANCELLED -> QUEUED   resumed
#ifndef BRAID_PIPELINE_JOBS_JOB_STATE_H_
#define BRAID_PIPELINE_JOBS_JOB_STATE_H_

#include "braid/v1/job.pb.h"

namespace braid {

// Returns whether a job may change from one state to the other.
bool IsLegalTransition(v1::JobState from, v1::JobState to);

// Returns whether the job remains in this state unless a user resumes it.
bool IsFinal(v1::JobState state);

}  // namespace braid

#endif  // BRAID_PIPELINE_JOBS_JOB_STATE_H_
