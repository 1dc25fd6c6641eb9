#include "pipeline/jobs/job_state.h"

namespace braid {

bool IsLegalTransition(v1::JobState from, v1::JobState to) {
  switch (from) {
    case v1::JOB_QUEUED:
      return to == v1::JOB_RUNNING || to == v1::JOB_CANCELLED;
    case v1::JOB_RUNNING:
      return to == v1::JOB_QUEUED || IsFinal(to);
    case v1::JOB_FAILED:
    case v1::JOB_CANCELLED:
      return to == v1::JOB_QUEUED;
    default:
      return false;
  }
}

bool IsFinal(v1::JobState state) {
  return state == v1::JOB_SUCCEEDED || state == v1::JOB_FAILED || state == v1::JOB_CANCELLED;
}

}  // namespace braid
