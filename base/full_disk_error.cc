#include "base/full_disk_error.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <unistd.h>

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "base/random_id.h"

namespace braid {
namespace {

// The size of the shared memory of a write-ahead log, which the first reader creates.
constexpr off_t kProbedBytes = 32 << 10;

// Returns the error of reserving blocks in a directory, or 0.
int ErrorOfReserving(const std::filesystem::path& directory) {
  const std::filesystem::path probe = directory / absl::StrCat(".probe-", RandomId(16));
  const int descriptor = open(probe.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (descriptor < 0) return errno;
  const int error_number = posix_fallocate(descriptor, 0, kProbedBytes);
  close(descriptor);
  unlink(probe.c_str());
  return error_number;
}

bool IsFull(const std::filesystem::path& directory, int code) {
  if (code == SQLITE_FULL) return true;
  if (code != SQLITE_IOERR && code != SQLITE_CANTOPEN) return false;
  const int error_number = ErrorOfReserving(directory);
  return error_number == ENOSPC || error_number == EDQUOT;
}

}  // namespace

std::optional<absl::Status> FullDiskError(const std::filesystem::path& database, int code) {
  const std::filesystem::path directory = database.parent_path();
  if (!IsFull(directory, code)) return std::nullopt;
  return absl::ResourceExhaustedError(absl::StrCat(
      "the file system of ", directory.string(), " is full: cannot use ",
      database.filename().string(),
      "; delete jobs and runs with 'braid delete' or 'braid gc', or free space otherwise"));
}

}  // namespace braid
