#include "base/file_lock.h"

#include <fcntl.h>

#include <cerrno>
#include <utility>

#include "base/file_error.h"
#include "base/status_macros.h"

namespace braid {

absl::StatusOr<FileLock> FileLock::Open(const std::filesystem::path& path, mode_t mode) {
  const int descriptor = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, mode);
  if (descriptor < 0) return SystemError("open", path, errno);
  return FileLock(LockDescriptors(descriptor));
}

absl::StatusOr<FileLock> FileLock::Take(const std::filesystem::path& path, mode_t mode) {
  ASSIGN_OR_RETURN(FileLock lock, Open(path, mode));
  RETURN_IF_ERROR(LockWholeFile(path, /*waits=*/true, &lock.descriptors_).status());
  return lock;
}

absl::StatusOr<std::optional<FileLock>> FileLock::TryTake(const std::filesystem::path& path,
                                                          mode_t mode) {
  ASSIGN_OR_RETURN(FileLock lock, Open(path, mode));
  ASSIGN_OR_RETURN(const bool locked, LockWholeFile(path, /*waits=*/false, &lock.descriptors_));
  if (!locked) return std::nullopt;
  return std::optional(std::move(lock));
}

}  // namespace braid
