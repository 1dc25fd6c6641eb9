// One supervisor a run.
#ifndef BRAID_CONTROL_SUPERVISION_SUPERVISOR_LOCK_H_
#define BRAID_CONTROL_SUPERVISION_SUPERVISOR_LOCK_H_

#include "absl/status/statusor.h"
#include "base/file_lock.h"
#include "runs/run_directory.h"

namespace braid {

// supervisor.lock of the run directory, held for the life of the supervisor. AlreadyExists when
// another has it.
absl::StatusOr<FileLock> TakeSupervisorLock(const RunDirectory& run);

}  // namespace braid

#endif  // BRAID_CONTROL_SUPERVISION_SUPERVISOR_LOCK_H_
