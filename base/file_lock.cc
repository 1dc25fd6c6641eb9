#include "base/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "base/byte_lock.h"
#include "base/file_error.h"
#include "base/status_macros.h"

namespace braid {
namespace {

// Returns 0 or the error.
int LockFile(const std::filesystem::path& path, bool waits, int* descriptor) {
  while (flock(*descriptor, waits ? LOCK_EX : LOCK_EX | LOCK_NB) != 0) {
    if (errno == EINTR) continue;
    if (!LacksLocks(errno)) return errno;
    struct flock whole = {};
    whole.l_type = F_WRLCK;
    whole.l_whence = SEEK_SET;
    return LockBytes(path, whole, waits, descriptor);
  }
  return 0;
}

}  // namespace

absl::StatusOr<FileLock> FileLock::Open(const std::filesystem::path& path, mode_t mode) {
  const int descriptor = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, mode);
  if (descriptor < 0) return SystemError("open", path, errno);
  return FileLock(descriptor);
}

absl::StatusOr<FileLock> FileLock::Take(const std::filesystem::path& path, mode_t mode) {
  ASSIGN_OR_RETURN(FileLock lock, Open(path, mode));
  const int error_number = LockFile(path, /*waits=*/true, &lock.descriptor_);
  if (error_number != 0) return SystemError("lock", path, error_number);
  return lock;
}

absl::StatusOr<std::optional<FileLock>> FileLock::TryTake(const std::filesystem::path& path,
                                                          mode_t mode) {
  ASSIGN_OR_RETURN(FileLock lock, Open(path, mode));
  const int error_number = LockFile(path, /*waits=*/false, &lock.descriptor_);
  if (error_number == 0) return std::optional(std::move(lock));
  if (error_number == EWOULDBLOCK || error_number == EACCES) return std::nullopt;
  return SystemError("lock", path, error_number);
}

FileLock::FileLock(FileLock&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}

FileLock::~FileLock() {
  if (descriptor_ >= 0) close(descriptor_);
}

}  // namespace braid
