#include "trainer/control/launch_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "formats/status_macros.h"

namespace braid {

absl::StatusOr<Descriptor> Descriptor::Open(const std::filesystem::path& path, int flags) {
  const int fd = open(path.c_str(), flags | O_CLOEXEC, 0644);
  if (fd >= 0) return Descriptor(fd);
  return absl::FailedPreconditionError(
      absl::StrCat("cannot open ", path.string(), ": ", std::strerror(errno)));
}

Descriptor::Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

Descriptor::~Descriptor() {
  if (fd_ >= 0) close(fd_);
}

namespace {

absl::StatusOr<Descriptor> Lock(const RunDirectory& run, int operation) {
  ASSIGN_OR_RETURN(Descriptor lock, Descriptor::Open(run.root() / "launch.lock", O_RDWR | O_CREAT));
  while (flock(lock.fd(), operation) != 0) {
    if (errno == EINTR) continue;
    return absl::UnavailableError(
        absl::StrCat("cannot lock ", run.root().string(), ": ", std::strerror(errno)));
  }
  return lock;
}

}  // namespace

absl::StatusOr<Descriptor> LockLaunch(const RunDirectory& run) { return Lock(run, LOCK_EX); }

absl::StatusOr<Descriptor> TryLockLaunch(const RunDirectory& run) {
  return Lock(run, LOCK_EX | LOCK_NB);
}

}  // namespace braid
