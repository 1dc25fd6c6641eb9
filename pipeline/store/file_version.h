// Detection of input files that change while a job reads them.
#ifndef BRAID_PIPELINE_STORE_FILE_VERSION_H_
#define BRAID_PIPELINE_STORE_FILE_VERSION_H_

#include <cstdint>
#include <filesystem>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace braid {

// The identity and state of a file. Writing or replacing the file changes its version, unless the
// writer restores the modification time.
struct FileVersion {
  uint64_t device = 0;
  uint64_t inode = 0;
  int64_t bytes = 0;
  int64_t modified_ns = 0;  // since 1970

  friend bool operator==(const FileVersion&, const FileVersion&) = default;
};

// Returns the version of a regular file; follows links and does not open the file. Errors:
// INVALID_ARGUMENT, which names the kind, when the path is a FIFO, socket, device or directory;
// PERMISSION_DENIED when this process may not read it; NOT_FOUND.
absl::StatusOr<FileVersion> ReadableFileVersion(const std::filesystem::path& path);

// Checks that the file still has this version. FAILED_PRECONDITION, with the kind of change,
// otherwise.
absl::Status CheckUnchanged(const std::filesystem::path& path, const FileVersion& version);

}  // namespace braid

#endif  // BRAID_PIPELINE_STORE_FILE_VERSION_H_
