#include "control/supervision/supervisor_process.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <thread>

#include "absl/cleanup/cleanup.h"
#include "base/file_error.h"
#include "base/status_macros.h"
#include "control/supervision/subprocess.h"

namespace braid {

absl::StatusOr<ChildProgram> ForkSupervisor(const std::string& supervisor, const RunDirectory& run,
                                            const std::vector<std::string>& options) {
  const std::string path = (run.root() / "supervisor.log").string();
  const int log = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (log < 0) return SystemError("open", path, errno);
  const absl::Cleanup close_it = [log] { close(log); };
  std::vector<std::string> arguments = {supervisor};
  arguments.insert(arguments.end(), options.begin(), options.end());
  arguments.push_back(run.root().string());
  return ChildProgram::Fork({.program = supervisor,
                             .arguments = arguments,
                             .environment = TrainerEnvironment(),
                             .directory = run.root().string(),
                             .standard_output = log,
                             .standard_error = log,
                             .new_session = true});
}

absl::Status ExecuteSupervisor(ChildProgram& child) {
  RETURN_IF_ERROR(child.Execute());
  // In a thread, because a SIGCHLD handler would affect the whole program.
  std::thread([pid = child.pid()] {
    while (waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
    }
  }).detach();
  return absl::OkStatus();
}

}  // namespace braid
