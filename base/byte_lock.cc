#include "base/byte_lock.h"

#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/file_error.h"
#include "base/status_macros.h"

namespace braid {
namespace {

namespace fs = std::filesystem;

// The results of lock calls are 0 or the error.
int LockRange(int descriptor, struct flock range, bool waits) {
  while (fcntl(descriptor, waits ? F_OFD_SETLKW : F_OFD_SETLK, &range) != 0) {
    if (errno != EINTR) return errno;
  }
  return 0;
}

int FlockFile(int descriptor, bool waits) {
  while (flock(descriptor, waits ? LOCK_EX : LOCK_EX | LOCK_NB) != 0) {
    if (errno != EINTR) return errno;
  }
  return 0;
}

// Returns whether this error of a lock means that the file system has no such locks, now or ever.
bool LacksLocks(int error_number) {
  return error_number == ENOLCK || error_number == ENOSYS || error_number == EOPNOTSUPP;
}

// Returns the result of a lock, or of the locks on a file and on its substitute, of which the
// latter is enough where the file system has none.
absl::StatusOr<bool> IsLocked(int error_number, const fs::path& file, bool has_substitute = false) {
  if (error_number == 0 || (has_substitute && LacksLocks(error_number))) return true;
  if (error_number == EAGAIN || error_number == EACCES) return false;
  return SystemError("lock", file, error_number);
}

// Opens $BRAID_STATE/locks and locks the byte that stands for a range of an open file. Sets
// *substitute to -1 and returns true if the variable is not set.
absl::StatusOr<bool> LockSubstitute(const fs::path& file, int descriptor, const struct flock& range,
                                    bool waits, int* substitute) {
  *substitute = -1;
  const char* const state = std::getenv("BRAID_STATE");
  if (state == nullptr || *state == '\0') return true;
  std::error_code error;
  fs::create_directories(state, error);
  if (error) return SystemError("create --state", state, error.value());
  const fs::path locks = fs::path(state) / "locks";
  const int opened = open(locks.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (opened < 0) return SystemError("open the lock file of --state", locks, errno);
  *substitute = opened;
  struct stat status = {};
  if (fstat(descriptor, &status) != 0) return SystemError("stat", file, errno);
  struct flock byte = range;
  byte.l_start = ByteOfName(absl::StrCat(status.st_dev, ":", status.st_ino, "#", range.l_start));
  byte.l_len = 1;
  return IsLocked(LockRange(opened, byte, waits), locks);
}

}  // namespace

off_t ByteOfName(std::string_view name) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return static_cast<off_t>(hash >> 2);
}

LockDescriptors::LockDescriptors(LockDescriptors&& other) noexcept
    : file_(std::exchange(other.file_, -1)), substitute_(std::exchange(other.substitute_, -1)) {}

LockDescriptors& LockDescriptors::operator=(LockDescriptors&& other) noexcept {
  std::swap(file_, other.file_);
  std::swap(substitute_, other.substitute_);
  return *this;
}

LockDescriptors::~LockDescriptors() {
  for (const int descriptor : {file_, substitute_}) {
    if (descriptor >= 0) close(descriptor);
  }
}

absl::StatusOr<bool> LockBytes(const fs::path& file, const struct flock& range, bool waits,
                               LockDescriptors* descriptors) {
  ASSIGN_OR_RETURN(const bool first, LockSubstitute(file, descriptors->file_, range, waits,
                                                    &descriptors->substitute_));
  if (!first) return false;
  return IsLocked(LockRange(descriptors->file_, range, waits), file, descriptors->substitute_ >= 0);
}

absl::StatusOr<bool> LockWholeFile(const fs::path& file, bool waits, LockDescriptors* descriptors) {
  struct flock whole = {};
  whole.l_type = F_WRLCK;
  whole.l_whence = SEEK_SET;
  ASSIGN_OR_RETURN(const bool first, LockSubstitute(file, descriptors->file_, whole, waits,
                                                    &descriptors->substitute_));
  if (!first) return false;
  int error_number = FlockFile(descriptors->file_, waits);
  if (LacksLocks(error_number)) error_number = LockRange(descriptors->file_, whole, waits);
  return IsLocked(error_number, file, descriptors->substitute_ >= 0);
}

}  // namespace braid
