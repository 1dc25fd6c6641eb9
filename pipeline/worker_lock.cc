#include "pipeline/worker_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>

#include "formats/file_error.h"

namespace braid {

absl::StatusOr<bool> WorkerLock::TryAcquire() {
  if (held()) return true;
  // Closed on exec, or a trainer started by this process would keep the lock.
  const int descriptor = open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (descriptor < 0) return SystemError("cannot open", path_, errno);
  if (flock(descriptor, LOCK_EX | LOCK_NB) == 0) {
    descriptor_ = descriptor;
    return true;
  }
  const int error = errno;
  close(descriptor);
  if (error == EWOULDBLOCK) return false;
  return SystemError("cannot lock", path_, error);
}

void WorkerLock::Release() {
  if (!held()) return;
  close(descriptor_);
  descriptor_ = -1;
}

}  // namespace braid
