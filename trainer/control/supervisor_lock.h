// One supervisor a run: supervisor.lock of the run directory, held for the life of a process.
#ifndef BRAID_TRAINER_CONTROL_SUPERVISOR_LOCK_H_
#define BRAID_TRAINER_CONTROL_SUPERVISOR_LOCK_H_

#include <utility>

#include "absl/status/statusor.h"
#include "trainer/run_directory.h"

namespace braid {

// flock: released by the kernel when its holder ends in any way, and held over hosts where the
// file system knows how.
class SupervisorLock {
 public:
  // AlreadyExists when another process has it.
  static absl::StatusOr<SupervisorLock> Take(const RunDirectory& run);
  SupervisorLock(SupervisorLock&& other) noexcept
      : descriptor_(std::exchange(other.descriptor_, -1)) {}
  SupervisorLock& operator=(SupervisorLock&&) = delete;
  ~SupervisorLock();

 private:
  explicit SupervisorLock(int descriptor) : descriptor_(descriptor) {}
  int descriptor_;
};

}  // namespace braid

#endif  // BRAID_TRAINER_CONTROL_SUPERVISOR_LOCK_H_
