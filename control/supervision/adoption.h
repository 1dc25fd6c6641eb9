// A run that has lost its supervisor gets another, from whoever looks.
#ifndef BRAID_CONTROL_SUPERVISION_ADOPTION_H_
#define BRAID_CONTROL_SUPERVISION_ADOPTION_H_

#include <string>

#include "absl/status/statusor.h"
#include "runs/run_directory.h"

namespace braid {

// process.json is of a later launch than `known_nonce`, that of supervision.json: its supervisor
// has not told a word yet. False while either is not known.
bool IsLaunchedAnew(const RunDirectory& run, const std::string& known_nonce);

// Starts `supervisor --adopt RUN_DIR` in a session of its own for a run of this machine that was
// launched and has not ended, when its supervisor is dead; returns whether it did. Where that
// cannot be seen, as it was of an earlier boot or of another container of this machine, it counts
// as dead when its lock is free and its ranks have been silent for a while. The supervisor adopts
// the live mpirun, or starts the run again where that is gone too, unless it was asked to stop.
// Cheap when there is nothing to do: a few small files. Any number of programs may call it at once:
// supervisor.lock lets one of their supervisors through. Left alone are runs of other machines, and
// of schedulers, which start theirs themselves. A supervisor that ends within a minute again and
// again is started ever more rarely, every five minutes in the end. FailedPrecondition when the
// supervisor cannot be executed.
absl::StatusOr<bool> EnsureSupervised(const std::string& supervisor, const RunDirectory& run);

}  // namespace braid

#endif  // BRAID_CONTROL_SUPERVISION_ADOPTION_H_
