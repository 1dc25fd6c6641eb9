#include "trainer/control/adoption.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <optional>
#include <thread>

#include "formats/file_error.h"
#include "formats/status_macros.h"
#include "trainer/control/child_program.h"
#include "trainer/control/process_identity.h"
#include "trainer/control/run_event_log.h"
#include "trainer/control/run_state.h"
#include "trainer/control/subprocess.h"
#include "trainer/control/supervisor_lock.h"

namespace braid {
namespace {

bool IsOrphan(const RunDirectory& run) {
  const absl::StatusOr<ProcessRecord> process = ReadProcessRecord(run.process());
  if (!process.ok() || !IsLocal(process->identity) || IsAlive(process->identity)) return false;
  const std::optional<v1::RunEvent> newest = ReadNewestRunEvent(run.events());
  if (newest ? HasEnded(newest->state()) : run.ReadExit().has_value()) return false;
  const absl::StatusOr<v1::RunSpec> spec = run.ReadSpec();
  if (!spec.ok() || access(run.launch().c_str(), R_OK) != 0) return false;
  const v1::LaunchBackend backend = spec->launch().backend();
  if (backend == v1::SLURM || backend == v1::KUBERNETES) return false;
  // One that is just starting has not recorded itself yet.
  return SupervisorLock::Take(run).ok();
}

}  // namespace

absl::StatusOr<bool> EnsureSupervised(const std::string& supervisor, const RunDirectory& run) {
  if (!IsOrphan(run)) return false;
  ASSIGN_OR_RETURN(const std::string program, RequireProgram(supervisor, ""));
  const std::string path = (run.root() / "supervisor.log").string();
  const int log = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (log < 0) return SystemError("open", path, errno);
  absl::StatusOr<ChildProgram> child =
      ChildProgram::Fork({.program = program,
                          .arguments = {program, "--adopt", run.root().string()},
                          .environment = TrainerEnvironment(),
                          .directory = run.root().string(),
                          .standard_output = log,
                          .standard_error = log,
                          .new_session = true});
  close(log);
  RETURN_IF_ERROR(child.status());
  RETURN_IF_ERROR(child->Execute());
  // So that it does not stay a zombie for as long as we live.
  std::thread([pid = child->pid()] {
    while (waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
    }
  }).detach();
  return true;
}

}  // namespace braid
