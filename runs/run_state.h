// The life of a run:
//
//   (new) -> QUEUED | STARTING
//   QUEUED -> STARTING | STOPPED | FAILED
//   STARTING -> RUNNING | RESTARTING | SUCCEEDED | STOPPED | FAILED
//   RUNNING -> RESTARTING | SUCCEEDED | STOPPED | FAILED
//   RESTARTING -> STARTING | SUCCEEDED | STOPPED | FAILED
//   STOPPED | FAILED -> QUEUED | STARTING     resumed by hand
//
// QUEUED waits for a scheduler, RESTARTING for the end of a pause after a failure. The states of
// a run's events (events.jsonl) follow these arrows.
#ifndef BRAID_RUNS_RUN_STATE_H_
#define BRAID_RUNS_RUN_STATE_H_

#include "braid/v1/training.pb.h"

namespace braid {

// `from` is RUN_STATE_UNSPECIFIED for the first state of a run. To stay is no transition.
bool IsLegalTransition(v1::RunState from, v1::RunState to);

// True for SUCCEEDED, STOPPED and FAILED: nothing more happens by itself.
bool HasEnded(v1::RunState state);

}  // namespace braid

#endif  // BRAID_RUNS_RUN_STATE_H_
