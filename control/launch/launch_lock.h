// Serializes the launches of one run, among all programs that use its HOME.
#ifndef BRAID_CONTROL_LAUNCH_LAUNCH_LOCK_H_
#define BRAID_CONTROL_LAUNCH_LAUNCH_LOCK_H_

#include "absl/status/statusor.h"
#include "base/file_lock.h"
#include "runs/run_directory.h"

namespace braid {

// Blocks until launch.lock of the run is taken.
absl::StatusOr<FileLock> LockLaunch(const RunDirectory& run);
// Takes launch.lock without blocking. Unavailable when another process holds it.
absl::StatusOr<FileLock> TryLockLaunch(const RunDirectory& run);

}  // namespace braid

#endif  // BRAID_CONTROL_LAUNCH_LAUNCH_LOCK_H_
