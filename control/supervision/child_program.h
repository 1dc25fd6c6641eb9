// Fork and exec in two phases, for programs with threads: between the two the
// parent can record who the child is, so that no program ever runs unrecorded.
#ifndef BRAID_CONTROL_SUPERVISION_CHILD_PROGRAM_H_
#define BRAID_CONTROL_SUPERVISION_CHILD_PROGRAM_H_

#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace braid {

// A pipe whose ends are closed on exec; owns both.
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
  std::vector<std::string> arguments;    // argv, its first is the name shown
  std::vector<std::string> environment;  // "NAME=value"
  std::string directory = "/";
  // What the child's streams are; -1: /dev/null.
  int standard_input = -1;
  int standard_output = -1;
  int standard_error = -1;
  // A session of its own, which no terminal and no parent's death ends.
  bool new_session = false;
  // Killed when the forking thread ends.
  bool die_with_parent = false;
};

// The child waits between Fork and Execute. One destroyed before Execute ends
// without having run anything. The program starts with no signal blocked or ignored
// and no descriptor open but the three streams, whatever this process has.
class ChildProgram {
 public:
  static absl::StatusOr<ChildProgram> Fork(const ChildProgramSpec& spec);
  ChildProgram(ChildProgram&&) = default;
  ~ChildProgram();

  pid_t pid() const { return pid_; }

  // Lets the child go; FailedPrecondition, with the program named, when exec
  // fails. The caller waits for the child (waitpid) after success only.
  absl::Status Execute();

 private:
  ChildProgram(pid_t pid, std::string program, Pipe gate, Pipe outcome)
      : pid_(pid),
        program_(std::move(program)),
        gate_(std::move(gate)),
        outcome_(std::move(outcome)) {}

  pid_t pid_;
  std::string program_;
  Pipe gate_;     // a byte here means go; its end means give up
  Pipe outcome_;  // carries errno when exec fails, and just ends when it works
};

}  // namespace braid

#endif  // BRAID_CONTROL_SUPERVISION_CHILD_PROGRAM_H_
