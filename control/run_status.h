// Describes a run from its run directory, on every request: there is no second copy of the state
// that could disagree with it.
#ifndef BRAID_CONTROL_RUN_STATUS_H_
#define BRAID_CONTROL_RUN_STATUS_H_

#include <string>

#include "braid/v1/training.pb.h"
#include "control/run_store.h"
#include "control/supervision/log_tail.h"
#include "runs/run_directory.h"
#include "runs/run_state.h"

namespace braid {

// Returns the description of a run at `now`, in Unix seconds. All reads are of bounded size.
//
// The state is that of Conclude (decision.h): the state of the newest event while a supervisor is
// in charge of the run, and otherwise what exit.json, the processes and the heartbeats imply. A
// scheduler that knows more overrides it. Attempts, incidents, slow ranks and effective training
// time come from supervision.json. `latest` is the newest step, with the newest routing of the last
// steps where it has none itself.
v1::Run DescribeRun(const RunRecord& record, double now);

}  // namespace braid

#endif  // BRAID_CONTROL_RUN_STATUS_H_
