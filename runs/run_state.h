// The states of a run and their transitions:
//
//   (new) -> QUEUED | STARTING
//   QUEUED -> STARTING | STOPPED | FAILED
//   STARTING -> RUNNING | RESTARTING | QUEUED | SUCCEEDED | STOPPED | FAILED
//   RUNNING -> RESTARTING | QUEUED | SUCCEEDED | STOPPED | FAILED
//   RESTARTING -> STARTING | QUEUED | SUCCEEDED | STOPPED | FAILED
//   STOPPED | FAILED -> QUEUED | STARTING     after braid resume
//
// A QUEUED run waits for a scheduler, which may queue it again after it ran; a RESTARTING run for
// the end of the pause after a failure. The states of the events of a run (events.jsonl) follow
// these arrows.
#ifndef BRAID_RUNS_RUN_STATE_H_
#define BRAID_RUNS_RUN_STATE_H_

#include "braid/v1/training.pb.h"

namespace braid {

// Returns whether the arrows above allow the transition. `from` is RUN_STATE_UNSPECIFIED for the
// first state of a run. Staying in a state is not a transition, and gives false.
bool IsLegalTransition(v1::RunState from, v1::RunState to);

// Returns true for SUCCEEDED, STOPPED and FAILED, in which a run remains until it is resumed.
bool HasEnded(v1::RunState state);

}  // namespace braid

#endif  // BRAID_RUNS_RUN_STATE_H_
