// Restarts the supervisor of a run whose supervisor died; the new one re-attaches to the live
// mpirun, or restarts the run where mpirun is gone as well.
#ifndef BRAID_CONTROL_SUPERVISION_REATTACH_H_
#define BRAID_CONTROL_SUPERVISION_REATTACH_H_

#include <string>

#include "absl/status/statusor.h"
#include "runs/run_directory.h"

namespace braid {

// Starts `supervisor --reattach RUN_DIR` in its own session when Decide asks for a supervisor
// (ActionKind::kSupervise): the run was launched on this machine, has not ended, and its supervisor
// is dead. Returns whether a supervisor was started.
//
// A supervisor of an earlier boot, or of another container of this machine, cannot be seen; it
// counts as dead when supervisor.lock is free and the ranks have been silent for a while. Runs of
// other machines are left alone, and so are runs of schedulers, which start supervisors themselves.
//
// Safe to call from any number of processes at once: supervisor.lock admits one of the supervisors
// that they start. Cheap when there is nothing to do: a few small files are read. A supervisor that
// exits within a minute five times in a row is started with growing pauses of up to five minutes.
//
// FailedPrecondition when the supervisor cannot be executed.
absl::StatusOr<bool> EnsureSupervised(const std::string& supervisor, const RunDirectory& run);

}  // namespace braid

#endif  // BRAID_CONTROL_SUPERVISION_REATTACH_H_
