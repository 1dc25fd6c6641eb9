// Starting a program that belongs to this process, and waiting for its end.
#ifndef BRAID_BASE_CHILD_PROCESS_H_
#define BRAID_BASE_CHILD_PROCESS_H_

#include <sys/types.h>

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace braid {

struct ChildProcessOptions {
  std::filesystem::path program = {};
  // argv, the program's name included.
  std::vector<std::string> arguments = {};
  // Entries "NAME=VALUE"; nullopt: the environment of this process.
  std::optional<std::vector<std::string>> environment = std::nullopt;
  // Descriptors that become the child's standard input and output; -1: those of this process.
  int standard_input = -1;
  int standard_output = -1;
};

// A running child. The destructor kills it and waits for its end.
//
// The child gets no descriptors besides its standard streams, the default action of every signal
// and an empty signal mask, whatever this process has set. It has a process group of its own, so
// that an interrupt at the terminal reaches this process only, which decides what to do.
//
// Not thread-safe.
class ChildProcess {
 public:
  // The end of a process. Both fields are unset if the kernel reaped the process, which happens
  // where SIGCHLD is ignored.
  struct End {
    std::optional<int> exit_code = std::nullopt;
    std::optional<int> signal = std::nullopt;
  };

  // Errors: those of SystemError for the program, such as NOT_FOUND.
  static absl::StatusOr<ChildProcess> Start(const ChildProcessOptions& options);

  ChildProcess(ChildProcess&& other) noexcept;
  ChildProcess& operator=(ChildProcess&&) = delete;
  ~ChildProcess();

  // Returns the child's process id; 0 after it was reaped.
  pid_t pid() const { return pid_; }

  // Waits at most `milliseconds` for the child to end by itself; returns whether it did.
  bool WaitFor(int milliseconds);

  // Waits until the child has ended and reaps it. Calls `keep_going`, which may be null, every
  // 50 ms; its first error kills the child and is returned.
  absl::StatusOr<End> Wait(const std::function<absl::Status()>& keep_going);

  // Kills the child unless it has ended already; reaps it and returns how it ended.
  End Kill();

 private:
  ChildProcess(pid_t pid, int descriptor) : pid_(pid), descriptor_(descriptor) {}
  End Reap();

  pid_t pid_;
  int descriptor_;  // a pidfd, readable once the process has ended
  End end_;
};

// Returns pointers to the strings and a null pointer after them: argv or the environment of exec
// and posix_spawn, which change neither. Valid as long as the strings are.
std::vector<char*> ExecPointers(const std::vector<std::string>& strings);

}  // namespace braid

#endif  // BRAID_BASE_CHILD_PROCESS_H_
