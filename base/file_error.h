// The wording of errors about files: what, where, got, expected, hint.
#ifndef BRAID_BASE_FILE_ERROR_H_
#define BRAID_BASE_FILE_ERROR_H_

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace braid {

// Status for a failed system call on `path`:
//   "cannot write /data/x.tmp: No space left on device (errno 28). Free space ..."
// ENOSPC, EDQUOT, EFBIG, EMFILE, ENFILE, ENOMEM -> RESOURCE_EXHAUSTED; EACCES,
// EPERM, EROFS -> PERMISSION_DENIED; ENOENT -> NOT_FOUND; EEXIST, ENOTEMPTY ->
// ALREADY_EXISTS; ENOTDIR, EISDIR, EINVAL, ENAMETOOLONG -> INVALID_ARGUMENT; EIO
// -> DATA_LOSS; others -> UNAVAILABLE.
absl::Status SystemError(std::string_view operation, const std::filesystem::path& path,
                         int error_number);
// Whether a status is one of these: the file could not be reached, which says nothing about
// what it holds.
bool IsSystemError(const absl::Status& status);

// What a reader found wrong in a file.
struct Mismatch {
  std::string what;    // "magic", "number of sequences", ...
  int64_t offset = 0;  // byte offset in the file
  std::string got;
  std::string expected;
  std::string hint = {};  // one sentence, may be empty
};

// DATA_LOSS: "PATH: bad WHAT at byte OFFSET: got GOT, expected EXPECTED. HINT"
absl::Status CorruptFile(const std::filesystem::path& path, const Mismatch& mismatch);

// INVALID_ARGUMENT with the same wording: the file is well formed but is not what
// the caller asked for or not supported here (another element type, byte order).
absl::Status UnsuitableFile(const std::filesystem::path& path, const Mismatch& mismatch);

}  // namespace braid

#endif  // BRAID_BASE_FILE_ERROR_H_
