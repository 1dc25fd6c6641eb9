// Ensures that a run has at most one supervisor.
#ifndef BRAID_CONTROL_SUPERVISION_SUPERVISOR_LOCK_H_
#define BRAID_CONTROL_SUPERVISION_SUPERVISOR_LOCK_H_

#include "absl/status/statusor.h"
#include "base/file_lock.h"
#include "runs/run_directory.h"

namespace braid {

// Takes supervisor.lock of the run directory, which a supervisor holds as long as it lives.
// AlreadyExists when another process holds it.
absl::StatusOr<FileLock> TakeSupervisorLock(const RunDirectory& run);

}  // namespace braid

#endif  // BRAID_CONTROL_SUPERVISION_SUPERVISOR_LOCK_H_
