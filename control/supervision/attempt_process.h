// The mpirun process of one attempt: started here, or found where an earlier supervisor started it.
#ifndef BRAID_CONTROL_SUPERVISION_ATTEMPT_PROCESS_H_
#define BRAID_CONTROL_SUPERVISION_ATTEMPT_PROCESS_H_

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runs/process_identity.h"
#include "runs/run_directory.h"

namespace braid {

// launch.json: {"arguments": ["mpirun", ...], "variables": {"NAME": "value"}, "hostfile": TEXT},
// the last with a hostfile only.
struct LaunchCommand {
  std::vector<std::string> arguments;
  std::vector<std::string> variables;  // "NAME=value"
};

// Returns RUN_DIR/hostfile, which mpirun reads with backend HOSTFILE.
std::filesystem::path HostfileOf(const std::filesystem::path& run_dir);

// Reads launch.json. NotFound without the file; DataLoss, with the field, when it is not a launch
// command, and when the hostfile that mpirun is going to read is not the one of the launch.
absl::StatusOr<LaunchCommand> ReadLaunchCommand(const RunDirectory& run);

// Returns 16 random hexadecimal digits.
std::string NewNonce();

class AttemptProcess {
 public:
  // Starts the command in its own session, with its output appended to trainer.log. attempt.json is
  // written durably before the program runs, so no attempt ever runs unrecorded, and ranks of the
  // attempt before end themselves when they read it; they are given `fence_seconds` for that.
  // FailedPrecondition when the program cannot be executed.
  static absl::StatusOr<AttemptProcess> Start(const RunDirectory& run, const LaunchCommand& command,
                                              const std::string& nonce, double now,
                                              double fence_seconds);

  // Returns the mpirun of attempt.json if that very process is alive on this machine.
  static std::optional<AttemptProcess> Find(const RunDirectory& run);

  const ProcessRecord& record() const { return record_; }

  // Returns whether mpirun is alive, and collects the exit code of a child.
  bool IsRunning();
  // Returns the exit code, or 128 + signal number. Absent while mpirun runs, and always when an
  // earlier supervisor was its parent.
  std::optional<int> exit_code() const { return exit_code_; }

  // Ends every process of the attempt that can be reached from here. Ranks on this machine are
  // killed at once. mpirun gets SIGTERM, so that it ends its daemons on other hosts, and SIGKILL
  // after a second. DeadlineExceeded when a process on this machine survives that as well.
  absl::Status End(const RunDirectory& run);

  // Sends SIGTERM to mpirun.
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
