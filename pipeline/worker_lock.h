// At most one process runs the jobs of a home at a time: flock on
// HOME/worker.lock. The system releases it when the process ends, however it
// ends.
#ifndef BRAID_PIPELINE_WORKER_LOCK_H_
#define BRAID_PIPELINE_WORKER_LOCK_H_

#include <filesystem>

#include "absl/status/statusor.h"

namespace braid {

// Two locks of one home exclude each other also within a process. Not
// thread-safe. A lock does not survive on file systems without flock; NFS since
// Linux 2.6.12 has it.
class WorkerLock {
 public:
  explicit WorkerLock(const std::filesystem::path& home) : path_(home / "worker.lock") {}
  WorkerLock(const WorkerLock&) = delete;
  WorkerLock& operator=(const WorkerLock&) = delete;
  ~WorkerLock() { Release(); }

  // False when somebody else holds it. Holding it already is true.
  absl::StatusOr<bool> TryAcquire();
  void Release();
  bool held() const { return descriptor_ >= 0; }

 private:
  const std::filesystem::path path_;
  int descriptor_ = -1;
};

}  // namespace braid

#endif  // BRAID_PIPELINE_WORKER_LOCK_H_
