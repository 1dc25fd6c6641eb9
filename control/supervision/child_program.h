// Fork and exec in two phases, for programs with threads. Between the two phases the parent can
// record the identity of the child, so that no program ever runs unrecorded.
#ifndef BRAID_CONTROL_SUPERVISION_CHILD_PROGRAM_H_
#define BRAID_CONTROL_SUPERVISION_CHILD_PROGRAM_H_

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace braid {

// A pipe whose ends are closed on exec. Owns both ends.
class Pipe {
 public:
  static absl::StatusOr<Pipe> Open();
  Pipe(Pipe&& other) noexcept;
  Pipe& operator=(Pipe&&) = delete;
  ~Pipe();

  int read_end() const { return ends_[0]; }
  int write_end() const { return ends_[1]; }
  void CloseReadEnd();
  void CloseWriteEnd();

 private:
  Pipe() = default;
  int ends_[2] = {-1, -1};
};

struct ChildProgramSpec {
  // The file to execute.
  std::string program;
  std::vector<std::string> arguments;    // argv; argv[0] is the displayed name
  std::vector<std::string> environment;  // "NAME=value"
  std::string directory = "/";
  // Descriptors of the child's streams; -1 stands for /dev/null.
  int standard_input = -1;
  int standard_output = -1;
  int standard_error = -1;
  // Run in a new session, so that neither a closed terminal nor the parent's death ends the child.
  bool new_session = false;
  // Kill the child when the forking thread exits.
  bool die_with_parent = false;
};

// A child process that waits between Fork and Execute. If the object is destroyed before Execute,
// the child exits without having run anything. The program starts with no signal blocked or ignored
// and no descriptor open except the three streams, whatever the state of this process.
class ChildProgram {
 public:
  static absl::StatusOr<ChildProgram> Fork(const ChildProgramSpec& spec);
  ChildProgram(ChildProgram&&) = default;
  ~ChildProgram();

  pid_t pid() const { return pid_; }

  // Executes the program in the child. FailedPrecondition, with the name of the program, when exec
  // fails. After success the caller must wait for the child (WaitForExit); after an error it must
  // not.
  absl::Status Execute();

 private:
  ChildProgram(pid_t pid, std::string program, Pipe gate, Pipe outcome)
      : pid_(pid),
        program_(std::move(program)),
        gate_(std::move(gate)),
        outcome_(std::move(outcome)) {}

  pid_t pid_;
  std::string program_;
  Pipe gate_;     // a byte lets the child execute; end of file makes it exit
  Pipe outcome_;  // carries errno when exec fails, and is closed by a successful exec
};

// Waits until a child of this process has exited. Returns its exit code, or 128 + signal number.
// Kills the child and sets `*killed` when `cancelled`, which is called every 2 ms, returns true; a
// child for which `*killed` is set already is only waited for.
int WaitForExit(pid_t pid, const std::function<bool()>& cancelled, bool* killed);

}  // namespace braid

#endif  // BRAID_CONTROL_SUPERVISION_CHILD_PROGRAM_H_
