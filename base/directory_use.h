// Marks directories of a home as in use, so that a deletion never removes what a job, a launch, an
// evaluation or a served model reads.
//
// HOME/uses.lock has one byte for each directory HOME/store/X, HOME/runs/X and HOME/supervised/X,
// found by a hash of its name. A user holds a shared lock on that byte, a deletion an exclusive
// one. The locks (base/byte_lock.h) act between threads and between processes and end with their
// process, so nothing is left by one that was killed.
#ifndef BRAID_BASE_DIRECTORY_USE_H_
#define BRAID_BASE_DIRECTORY_USE_H_

#include <filesystem>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "base/byte_lock.h"

namespace braid {

// Returns "store/X", "runs/X" or "supervised/X" for a path within that directory of `home`, after
// links are resolved, and "" for any other path.
std::string DirectoryInHome(const std::filesystem::path& home, const std::filesystem::path& path);

// A lock on the directory of a home that contains a path; released when it is destroyed.
class DirectoryUse {
 public:
  // Blocks while a deletion has reserved the directory; check afterwards that it still exists.
  // Locks nothing when `path` is not within such a directory, or in a home that this process may
  // not write.
  static absl::StatusOr<DirectoryUse> Share(const std::filesystem::path& home,
                                            const std::filesystem::path& path);
  // Returns nullopt when the directory is in use. Requires: `path` is within such a directory.
  static absl::StatusOr<std::optional<DirectoryUse>> TryReserve(const std::filesystem::path& home,
                                                                const std::filesystem::path& path);

  DirectoryUse() = default;

 private:
  explicit DirectoryUse(int descriptor) : descriptors_(descriptor) {}

  LockDescriptors descriptors_;
};

}  // namespace braid

#endif  // BRAID_BASE_DIRECTORY_USE_H_
