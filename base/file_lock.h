// Mutual exclusion between threads and processes of all hosts that share a file.
#ifndef BRAID_BASE_FILE_LOCK_H_
#define BRAID_BASE_FILE_LOCK_H_

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <utility>

#include "absl/status/statusor.h"
#include "base/byte_lock.h"

namespace braid {

// An exclusive flock, or on a file system that has none a lock of base/byte_lock.h, released at the
// end of its scope or when the process ends in any way. Programs started by this process do not
// inherit it. Works on NFS since Linux 2.6.12. On a file system without any locks it excludes only
// processes of this host that have the same $BRAID_STATE; without that, locking is an error, and so
// is a $BRAID_STATE that cannot be used on any file system. The lock file is created with `mode` if
// it does not exist, is not removed, and is not a symlink.
class FileLock {
 public:
  // Blocks until the lock is acquired.
  static absl::StatusOr<FileLock> Take(const std::filesystem::path& path, mode_t mode = 0644);
  // Returns nullopt immediately if another thread or process holds the lock.
  static absl::StatusOr<std::optional<FileLock>> TryTake(const std::filesystem::path& path,
                                                         mode_t mode = 0644);
  FileLock(FileLock&& other) noexcept = default;
  FileLock& operator=(FileLock&&) = delete;

 private:
  static absl::StatusOr<FileLock> Open(const std::filesystem::path& path, mode_t mode);
  explicit FileLock(LockDescriptors descriptors) : descriptors_(std::move(descriptors)) {}

  LockDescriptors descriptors_;
};

}  // namespace braid

#endif  // BRAID_BASE_FILE_LOCK_H_
