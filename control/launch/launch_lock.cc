#include "control/launch/launch_lock.h"

#include <filesystem>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace braid {
namespace {

std::filesystem::path LockFile(const RunDirectory& run) { return run.root() / "launch.lock"; }

}  // namespace

absl::StatusOr<FileLock> LockLaunch(const RunDirectory& run) {
  return FileLock::Take(LockFile(run));
}

absl::StatusOr<FileLock> TryLockLaunch(const RunDirectory& run) {
  ASSIGN_OR_RETURN(std::optional<FileLock> lock, FileLock::TryTake(LockFile(run)));
  if (lock) return std::move(*lock);
  return absl::UnavailableError(absl::StrCat("another process is launching ", run.root().string()));
}

}  // namespace braid
