#include "runs/run_state.h"

namespace braid {

bool HasEnded(v1::RunState state) {
  return state == v1::RUN_SUCCEEDED || state == v1::RUN_STOPPED || state == v1::RUN_FAILED;
}

bool IsLegalTransition(v1::RunState from, v1::RunState to) {
  switch (from) {
    case v1::RUN_STATE_UNSPECIFIED:
      return to == v1::RUN_QUEUED || to == v1::RUN_STARTING;
    case v1::RUN_QUEUED:
      return to == v1::RUN_STARTING || to == v1::RUN_STOPPED || to == v1::RUN_FAILED;
    case v1::RUN_RESTARTING:  // the failed attempt may have succeeded in the last moment
      return to == v1::RUN_STARTING || to == v1::RUN_QUEUED || HasEnded(to);
    case v1::RUN_STARTING:
      return to == v1::RUN_RUNNING || to == v1::RUN_RESTARTING || to == v1::RUN_QUEUED ||
             HasEnded(to);
    case v1::RUN_RUNNING:
      return to == v1::RUN_RESTARTING || to == v1::RUN_QUEUED || HasEnded(to);
    case v1::RUN_STOPPED:
    case v1::RUN_FAILED:
      return to == v1::RUN_QUEUED || to == v1::RUN_STARTING;
    default:
      return false;
  }
}

}  // namespace braid
