#include "control/supervision/supervisor_lock.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace braid {

absl::StatusOr<FileLock> TakeSupervisorLock(const RunDirectory& run) {
  ASSIGN_OR_RETURN(std::optional<FileLock> lock, FileLock::TryTake(run.root() / "supervisor.lock"));
  if (lock) return std::move(*lock);
  return absl::AlreadyExistsError(absl::StrCat(run.root().string(), " already has a supervisor"));
}

}  // namespace braid
