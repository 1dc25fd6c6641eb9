#include "base/database_error.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <unistd.h>

#include <cerrno>
#include <string>

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

absl::Status FullDisk(const std::filesystem::path& database) {
  return absl::ResourceExhaustedError(absl::StrCat(
      "the file system of ", database.parent_path().string(), " is full: cannot use ",
      database.filename().string(),
      "; delete jobs and runs with 'braid delete' or 'braid gc', or free space otherwise"));
}

}  // namespace

absl::Status DatabaseError(const std::filesystem::path& database, int code,
                           std::string_view message, std::string_view remedy) {
  if (IsFull(database.parent_path(), code)) return FullDisk(database);
  const std::string what = absl::StrCat(database.string(), ": ", std::string(message), "; ");
  switch (code) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return absl::UnavailableError(what + "another process has locked the database, retry");
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return absl::DataLossError(what + std::string(remedy));
    case SQLITE_CANTOPEN:
    case SQLITE_READONLY:
      return absl::PermissionDeniedError(
          what + "make the file and its directory writable, or choose another --home");
    default:
      return absl::InternalError(absl::StrCat(database.string(), ": ", std::string(message)));
  }
}

}  // namespace braid
