// A short-lived child program whose output is read line by line: no shell, no
// standard input, and it dies with the thread that runs it.
//
//   SubprocessResult result = *RunSubprocess(
//       {.arguments = {"/usr/bin/braid-trainer", "evaluate", "request.textproto"}},
//       [&](std::string_view line) { return Forward(line); },
//       [&] { return context->IsCancelled(); });
#ifndef BRAID_CONTROL_SUPERVISION_SUBPROCESS_H_
#define BRAID_CONTROL_SUPERVISION_SUBPROCESS_H_

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace braid {

struct SubprocessSpec {
  // arguments[0] is the program: a path, or a name that is looked up in PATH.
  std::vector<std::string> arguments = {};
  // "NAME=value"; nothing else of our environment is passed on.
  std::vector<std::string> environment = {};
};

struct SubprocessResult {
  // As a shell counts: the exit code, or 128 + the signal that ended it.
  int exit_code = 0;
  // We ended it, because a callback said so.
  bool killed = false;
  // The last 4 KiB of what it wrote on standard error.
  std::string error_output;
};

// Runs until the child has ended and been waited for. `on_line` gets each line
// of standard output without its newline; when it returns false, or `cancelled`
// (asked at least every 50 ms) returns true, the child is killed.
// FailedPrecondition when the program cannot be started.
absl::StatusOr<SubprocessResult> RunSubprocess(
    const SubprocessSpec& spec, const std::function<bool(std::string_view line)>& on_line,
    const std::function<bool()>& cancelled);

// The absolute path of the file that executing `program` would start: itself when it
// holds a slash, else the first executable of that name in PATH. Absent when there is
// none. (Absolute, because children run in another directory.)
std::optional<std::string> FindProgram(const std::string& program);

// FindProgram, or FailedPrecondition with `hint` at its end.
absl::StatusOr<std::string> RequireProgram(const std::string& program, std::string_view hint);

// The variables of this process's environment that a trainer may see: paths,
// locale, and the settings of Open MPI, CUDA, BLAS, Slurm and sanitizers. Tokens and
// whatever else surrounds us stay out.
std::vector<std::string> TrainerEnvironment();

// As TrainerEnvironment, of the given variables ("NAME=value").
std::vector<std::string> AllowedEnvironment(const std::vector<std::string>& environment);

}  // namespace braid

#endif  // BRAID_CONTROL_SUPERVISION_SUBPROCESS_H_
