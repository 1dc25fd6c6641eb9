// Launches of one run take turns, among all programs over its HOME.
#ifndef BRAID_TRAINER_CONTROL_LAUNCH_LOCK_H_
#define BRAID_TRAINER_CONTROL_LAUNCH_LOCK_H_

#include <filesystem>

#include "absl/status/statusor.h"
#include "trainer/run_directory.h"

namespace braid {

// An open file, closed on exec and at the end of its scope.
class Descriptor {
 public:
  static absl::StatusOr<Descriptor> Open(const std::filesystem::path& path, int flags);
  Descriptor(Descriptor&& other) noexcept;
  Descriptor& operator=(Descriptor&&) = delete;
  ~Descriptor();
  int fd() const { return fd_; }

 private:
  explicit Descriptor(int fd) : fd_(fd) {}
  int fd_;
};

// Waits for launch.lock of the run; held until the descriptor is closed.
absl::StatusOr<Descriptor> LockLaunch(const RunDirectory& run);
// Unavailable, at once, when somebody else has it.
absl::StatusOr<Descriptor> TryLockLaunch(const RunDirectory& run);

}  // namespace braid

#endif  // BRAID_TRAINER_CONTROL_LAUNCH_LOCK_H_
