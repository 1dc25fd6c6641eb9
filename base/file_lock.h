// One holder at a time, among the threads and processes of all hosts that share a file.
#ifndef BRAID_BASE_FILE_LOCK_H_
#define BRAID_BASE_FILE_LOCK_H_

#include <sys/types.h>

#include <filesystem>
#include <optional>

#include "absl/status/statusor.h"

namespace braid {

// An exclusive flock, released at the end of its scope or when the process ends, however it ends.
// Programs that are started meanwhile do not keep it. NFS has it since Linux 2.6.12; a file system
// without is an error. The file is made with `mode` where it is missing, stays behind, and may not
// be a symbolic link.
class FileLock {
 public:
  // Waits for it.
  static absl::StatusOr<FileLock> Take(const std::filesystem::path& path, mode_t mode = 0644);
  // nullopt, at once, when somebody else holds it.
  static absl::StatusOr<std::optional<FileLock>> TryTake(const std::filesystem::path& path,
                                                         mode_t mode = 0644);
  FileLock(FileLock&& other) noexcept;
  FileLock& operator=(FileLock&&) = delete;
  ~FileLock();

 private:
  static absl::StatusOr<FileLock> Open(const std::filesystem::path& path, mode_t mode);
  explicit FileLock(int descriptor) : descriptor_(descriptor) {}

  int descriptor_;
};

}  // namespace braid

#endif  // BRAID_BASE_FILE_LOCK_H_
