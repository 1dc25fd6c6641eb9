// Errors about files, in one wording: what failed, where, got, expected, hint.
#ifndef BRAID_BASE_FILE_ERROR_H_
#define BRAID_BASE_FILE_ERROR_H_

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace braid {

// Returns the status of a failed system call on `path`:
//   "cannot write /data/x.tmp: No space left on device (errno 28). Free space ..."
// ENOSPC, EDQUOT, EFBIG, EMFILE, ENFILE and ENOMEM become RESOURCE_EXHAUSTED; EACCES, EPERM and
// EROFS PERMISSION_DENIED; ENOENT NOT_FOUND; EEXIST and ENOTEMPTY ALREADY_EXISTS; ENOTDIR, EISDIR,
// EINVAL and ENAMETOOLONG INVALID_ARGUMENT; EIO DATA_LOSS; others UNAVAILABLE.
absl::Status SystemError(std::string_view operation, const std::filesystem::path& path,
                         int error_number);
// Returns whether `status` came from SystemError: the file could not be accessed, which says
// nothing about its contents.
bool IsSystemError(const absl::Status& status);

// A field of a file that differs from what its format requires.
struct Mismatch {
  std::string what;    // "magic", "number of sequences", ...
  int64_t offset = 0;  // byte offset in the file
  std::string got;
  std::string expected;
  std::string hint = {};  // one sentence, may be empty
};

// Returns DATA_LOSS "PATH: bad WHAT at byte OFFSET: got GOT, expected EXPECTED. HINT".
absl::Status CorruptFile(const std::filesystem::path& path, const Mismatch& mismatch);

// Returns INVALID_ARGUMENT with the same wording, for a file that is well formed but is not what
// the caller asked for or not supported (another element type or byte order).
absl::Status UnsuitableFile(const std::filesystem::path& path, const Mismatch& mismatch);

}  // namespace braid

#endif  // BRAID_BASE_FILE_ERROR_H_
