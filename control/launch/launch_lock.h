// Launches of one run take turns, among all programs over its HOME.
#ifndef BRAID_CONTROL_LAUNCH_LAUNCH_LOCK_H_
#define BRAID_CONTROL_LAUNCH_LAUNCH_LOCK_H_

#include "absl/status/statusor.h"
#include "base/file_lock.h"
#include "runs/run_directory.h"

namespace braid {

// Waits for launch.lock of the run.
absl::StatusOr<FileLock> LockLaunch(const RunDirectory& run);
// Unavailable, at once, when somebody else has it.
absl::StatusOr<FileLock> TryLockLaunch(const RunDirectory& run);

}  // namespace braid

#endif  // BRAID_CONTROL_LAUNCH_LAUNCH_LOCK_H_
