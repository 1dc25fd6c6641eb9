// Whether an input file is still what it was when it was listed.
#ifndef BRAID_PIPELINE_STORE_FILE_VERSION_H_
#define BRAID_PIPELINE_STORE_FILE_VERSION_H_

#include <cstdint>
#include <filesystem>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace braid {

// A file that is written or replaced gets another version, except by who sets its modification
// time back.
struct FileVersion {
  uint64_t device = 0;
  uint64_t inode = 0;
  int64_t bytes = 0;
  int64_t modified_ns = 0;  // since 1970

  friend bool operator==(const FileVersion&, const FileVersion&) = default;
};

// Follows links. INVALID_ARGUMENT, naming what it is, when the path is a FIFO, socket, device or
// directory, without opening it; PERMISSION_DENIED when this process may not read it.
absl::StatusOr<FileVersion> ReadableFileVersion(const std::filesystem::path& path);

// FAILED_PRECONDITION, saying how it changed, when the file is no longer `version`.
absl::Status CheckUnchanged(const std::filesystem::path& path, const FileVersion& version);

}  // namespace braid

#endif  // BRAID_PIPELINE_STORE_FILE_VERSION_H_
