#include "base/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "base/file_error.h"
#include "base/status_macros.h"

namespace braid {

absl::StatusOr<FileLock> FileLock::Open(const std::filesystem::path& path, mode_t mode) {
  const int descriptor = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, mode);
  if (descriptor < 0) return SystemError("open", path, errno);
  return FileLock(descriptor);
}

absl::StatusOr<FileLock> FileLock::Take(const std::filesystem::path& path, mode_t mode) {
  ASSIGN_OR_RETURN(FileLock lock, Open(path, mode));
  while (flock(lock.descriptor_, LOCK_EX) != 0) {
    if (errno != EINTR) return SystemError("lock", path, errno);
  }
  return lock;
}

absl::StatusOr<std::optional<FileLock>> FileLock::TryTake(const std::filesystem::path& path,
                                                          mode_t mode) {
  ASSIGN_OR_RETURN(FileLock lock, Open(path, mode));
  if (flock(lock.descriptor_, LOCK_EX | LOCK_NB) == 0) return std::optional(std::move(lock));
  if (errno == EWOULDBLOCK) return std::nullopt;
  return SystemError("lock", path, errno);
}

FileLock::FileLock(FileLock&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}

FileLock::~FileLock() {
  if (descriptor_ >= 0) close(descriptor_);
}

}  // namespace braid
