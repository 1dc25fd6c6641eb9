#include "trainer/control/supervisor_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "formats/file_error.h"

namespace braid {

absl::StatusOr<SupervisorLock> SupervisorLock::Take(const RunDirectory& run) {
  const std::filesystem::path path = run.root() / "supervisor.lock";
  const int descriptor = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (descriptor < 0) return SystemError("open", path, errno);
  SupervisorLock lock(descriptor);
  if (flock(descriptor, LOCK_EX | LOCK_NB) == 0) return lock;
  if (errno == EWOULDBLOCK) {
    return absl::AlreadyExistsError(absl::StrCat(run.root().string(), " has a supervisor already"));
  }
  return SystemError("lock", path, errno);
}

SupervisorLock::~SupervisorLock() {
  if (descriptor_ >= 0) close(descriptor_);
}

}  // namespace braid
