// Runs a short-lived child program and reads its output line by line. There is no shell and no
// standard input, and the child is killed when the thread that runs it exits.
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
  // "NAME=value"; nothing else of this process's environment is passed on.
  std::vector<std::string> environment = {};
};

struct SubprocessResult {
  // The exit code, or 128 + signal number.
  int exit_code = 0;
  // The child was killed because a callback asked for it.
  bool killed = false;
  // The last 4 KiB of its standard error.
  std::string error_output;
};

// Cuts the start off a child's standard error so that SubprocessResult.error_output remains.
void CutToErrorTail(std::string* error_output);

// Runs the program and blocks until it has exited. `on_line` receives each line of standard output
// without its newline. The child is killed when `on_line` returns false or `cancelled`, which is
// called at least every 50 ms, returns true. FailedPrecondition when the program cannot be started.
absl::StatusOr<SubprocessResult> RunSubprocess(
    const SubprocessSpec& spec, const std::function<bool(std::string_view line)>& on_line,
    const std::function<bool()>& cancelled);

// Returns the absolute path of the file that executing `program` would start: `program` itself when
// it contains a slash, otherwise the first executable of that name in PATH. Absent when there is
// none. The path is absolute because children run in another directory.
std::optional<std::string> FindProgram(const std::string& program);

// Returns FindProgram(program), or FailedPrecondition with `hint` at its end.
absl::StatusOr<std::string> RequireProgram(const std::string& program, std::string_view hint);

// Returns the variables of this process's environment that a trainer may see: paths, locale, and
// the settings of Open MPI, CUDA, BLAS, Slurm and sanitizers. Secrets such as tokens are never
// included.
std::vector<std::string> TrainerEnvironment();

// Applies the same filter to the given variables ("NAME=value").
std::vector<std::string> AllowedEnvironment(const std::vector<std::string>& environment);

}  // namespace braid

#endif  // BRAID_CONTROL_SUPERVISION_SUBPROCESS_H_
