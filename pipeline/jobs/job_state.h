// The life of a corpus job:
//
//   QUEUED -> RUNNING -> SUCCEEDED | FAILED | CANCELLED
//   QUEUED -> CANCELLED
//   RUNNING -> QUEUED              interrupted, or to be tried again
//   FAILED | CANCELLED -> QUEUED   resumed
#ifndef BRAID_PIPELINE_JOBS_JOB_STATE_H_
#define BRAID_PIPELINE_JOBS_JOB_STATE_H_

#include "braid/v1/pipeline.pb.h"

namespace braid {

bool IsLegalTransition(v1::JobState from, v1::JobState to);

// True for the states in which nothing more happens by itself.
bool IsFinal(v1::JobState state);

}  // namespace braid

#endif  // BRAID_PIPELINE_JOBS_JOB_STATE_H_
