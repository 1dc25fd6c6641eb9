#include "base/byte_lock.h"

#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <system_error>

#include "absl/strings/str_cat.h"

namespace braid {
namespace {

int LockRange(int descriptor, struct flock range, bool waits) {
  while (fcntl(descriptor, waits ? F_OFD_SETLKW : F_OFD_SETLK, &range) != 0) {
    if (errno != EINTR) return errno;
  }
  return 0;
}

// Opens the file "locks" in the directory $BRAID_STATE, both created if missing. Returns -1 if the
// variable is not set or the file cannot be opened.
int OpenSubstitute() {
  const char* const state = std::getenv("BRAID_STATE");
  if (state == nullptr || *state == '\0') return -1;
  std::error_code error;
  std::filesystem::create_directories(state, error);
  const std::filesystem::path locks = std::filesystem::path(state) / "locks";
  return open(locks.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
}

// Names a range by the path of its file without symbolic links and by where it begins. Two mounts
// of a directory have different names.
std::string NameOfRange(const std::filesystem::path& file, const struct flock& range) {
  std::error_code error;
  const auto path = std::filesystem::weakly_canonical(file, error);
  return absl::StrCat((error ? file : path).string(), "#", range.l_start);
}

}  // namespace

off_t ByteOfName(std::string_view name) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return static_cast<off_t>(hash >> 2);
}

bool LacksLocks(int error_number) {
  return error_number == ENOLCK || error_number == ENOSYS || error_number == EOPNOTSUPP;
}

int LockBytes(const std::filesystem::path& file, struct flock range, bool waits, int* descriptor) {
  const int error_number = LockRange(*descriptor, range, waits);
  if (!LacksLocks(error_number)) return error_number;
  const int substitute = OpenSubstitute();
  if (substitute < 0) return error_number;
  close(*descriptor);
  *descriptor = substitute;
  range.l_start = ByteOfName(NameOfRange(file, range));
  range.l_len = 1;
  return LockRange(substitute, range, waits);
}

}  // namespace braid
