// mpirun of one attempt to train: started, adopted from whoever started it, watched, ended.
#ifndef BRAID_CONTROL_SUPERVISION_ATTEMPT_PROCESS_H_
#define BRAID_CONTROL_SUPERVISION_ATTEMPT_PROCESS_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runs/process_identity.h"
#include "runs/run_directory.h"

namespace braid {

// launch.json: {"arguments": ["mpirun", ...], "variables": {"NAME": "value"}}.
struct LaunchCommand {
  std::vector<std::string> arguments;
  std::vector<std::string> variables;  // "NAME=value"
};

// NotFound without the file, DataLoss, naming the field, when it is not a launch command.
absl::StatusOr<LaunchCommand> ReadLaunchCommand(const RunDirectory& run);

// 16 random hexadecimal digits.
std::string NewNonce();

class AttemptProcess {
 public:
  // The command in a session of its own, its output at the end of trainer.log. attempt.json is
  // durable before the program runs, which fences off ranks of the attempt before; they are given
  // `fence_seconds` to notice. FailedPrecondition when it cannot be executed.
  static absl::StatusOr<AttemptProcess> Start(const RunDirectory& run, const LaunchCommand& command,
                                              const std::string& nonce, double now,
                                              double fence_seconds);

  // The attempt of attempt.json, if its mpirun lives here.
  static std::optional<AttemptProcess> Adopt(const RunDirectory& run);

  const ProcessRecord& record() const { return record_; }

  // Also collects the exit code of a child.
  bool IsRunning();
  // As a shell counts: the exit code, or 128 + signal. Absent while it runs, and when another
  // process was its parent.
  std::optional<int> exit_code() const { return exit_code_; }

  // Ends every process of the attempt that can be reached from here: its ranks on this machine at
  // once; mpirun is asked, so that it tells its daemons elsewhere, and killed when that takes
  // more than a second. DeadlineExceeded when a process here outlives even that.
  absl::Status End(const RunDirectory& run);

  // SIGTERM to mpirun.
  void Terminate() const;

 private:
  AttemptProcess(ProcessRecord record, bool is_child)
      : record_(std::move(record)), is_child_(is_child) {}
  bool WaitUntilGone(const RunDirectory& run, double seconds);

  ProcessRecord record_;
  bool is_child_;
  std::optional<int> exit_code_;
};

}  // namespace braid

#endif  // BRAID_CONTROL_SUPERVISION_ATTEMPT_PROCESS_H_
