// Starts a run: plans what is executed where, writes it into the run directory and lets
// braid-supervisor have it, here or through a scheduler. docs/launching.md describes the
// backends.
//
//   launch.json      the mpirun of the run; see control/launch/mpirun_command.h
//   hostfile         of backend HOSTFILE
//   launch.sbatch    of backend SLURM
//   launch.mpijob.json  of backend KUBERNETES
//   scheduler.json   of the last two; see control/launch/scheduler.h
//   supervisor.log   what the supervisor and the scheduler print
#ifndef BRAID_CONTROL_LAUNCH_LAUNCHER_H_
#define BRAID_CONTROL_LAUNCH_LAUNCHER_H_

#include <filesystem>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "braid/v1/training.pb.h"
#include "control/launch/mpirun_command.h"
#include "runs/process_identity.h"
#include "runs/run_directory.h"

namespace braid {

// The programs of a launch: paths, or names that are looked up in PATH. They are the
// service's; nothing of a RunSpec can change them.
struct LauncherPrograms {
  std::string mpirun = "mpirun";
  std::string trainer = "braid-trainer";
  std::string supervisor = "braid-supervisor";
  // Starts a command on another host, as `AGENT HOST COMMAND...`. Empty: ssh.
  std::string remote_agent = "";
};

// All as absolute paths. FailedPrecondition, with what to install, when one is missing that
// the backend of `spec` needs.
absl::StatusOr<LauncherPrograms> FindLauncherPrograms(const LauncherPrograms& programs,
                                                      const v1::RunSpec& spec);

// Whether a run of `spec`, resolved, could be started below `home`: programs and paths. Errors
// of FindLauncherPrograms and PlanLaunch.
absl::Status CheckLaunch(const LauncherPrograms& programs, const std::filesystem::path& home,
                         const v1::RunSpec& spec);

// Everything that starting a run writes and executes.
struct LaunchPlan {
  MpirunCommand mpirun;
  // What this program executes: the supervisor, sbatch or kubectl.
  std::vector<std::string> start;
  std::string hostfile;  // text; empty without one
  // The file that the scheduler is given, and its text; empty without a scheduler.
  std::filesystem::path submission;
  std::string submission_text;
};

// Pure. `programs` as FindLauncherPrograms gives them, `spec` resolved; `job_name` only with a
// scheduler. InvalidArgument when a path cannot be used with the backend.
absl::StatusOr<LaunchPlan> PlanLaunch(const LauncherPrograms& programs, const MpirunSite& site,
                                      const std::filesystem::path& run_dir, const v1::RunSpec& spec,
                                      const std::string& job_name);

// The site of this process: its environment, its user, and the mpirun that is installed.
absl::StatusOr<MpirunSite> LocalSite(const LauncherPrograms& programs, const v1::RunSpec& spec);

// "braid-run-000001-0123abcd", from the run directory's name and a nonce.
std::string JobName(const std::filesystem::path& run_dir, const std::string& nonce);

// Starts or submits the run whose resolved spec is in `run`; safe to repeat after a crash at
// any moment. An exit.json of an earlier attempt is removed. FailedPrecondition when the run
// is alive or queued already, or a program is missing; Unavailable when the scheduler did not
// answer, and then repeating it submits only what was not submitted.
absl::Status StartRun(const LauncherPrograms& programs, const RunDirectory& run);
// The same for those who hold LockLaunch(run).
absl::Status StartLockedRun(const LauncherPrograms& programs, const RunDirectory& run);

// Whether StartRun has got as far as a process or a job, at any time.
bool WasStarted(const RunDirectory& run);

}  // namespace braid

#endif  // BRAID_CONTROL_LAUNCH_LAUNCHER_H_
