// One supervisor a run.
#ifndef BRAID_TRAINER_CONTROL_SUPERVISOR_LOCK_H_
#define BRAID_TRAINER_CONTROL_SUPERVISOR_LOCK_H_

#include "absl/status/statusor.h"
#include "formats/file_lock.h"
#include "trainer/run_directory.h"

namespace braid {

// supervisor.lock of the run directory, held for the life of the supervisor. AlreadyExists when
// another has it.
absl::StatusOr<FileLock> TakeSupervisorLock(const RunDirectory& run);

}  // namespace braid

#endif  // BRAID_TRAINER_CONTROL_SUPERVISOR_LOCK_H_
