// Starts a run: plans which program runs where, writes the plan into the run directory, and starts
// braid-supervisor on it, on this machine or through a scheduler. docs/control.md describes the
// backends; KUBERNETES is experimental.
//
//   launch.json      the mpirun of the run; see control/launch/mpirun_command.h
//   hostfile         for backend HOSTFILE
//   launch.sbatch    for backend SLURM
//   launch.mpijob.json  for backend KUBERNETES
//   scheduler.json   for the last two; see control/launch/scheduler.h
//   supervisor.log   output of the supervisor and the scheduler
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

// The programs of a launch: paths, or names that are looked up in PATH. They are options of the
// service that no RunSpec can change.
struct LauncherPrograms {
  std::string mpirun = "mpirun";
  std::string trainer = "braid-trainer";
  std::string supervisor = "braid-supervisor";
  // Starts a command on another host, as `AGENT HOST COMMAND...`. Empty: ssh.
  std::string remote_agent = "";
};

// Returns the programs as absolute paths. FailedPrecondition, with what to install, when a program
// that the backend of `spec` needs is missing.
absl::StatusOr<LauncherPrograms> FindLauncherPrograms(const LauncherPrograms& programs,
                                                      const v1::RunSpec& spec);

// Checks programs and paths for a run of the resolved `spec` below `home`. Errors are those of
// FindLauncherPrograms and PlanLaunch.
absl::Status CheckLaunch(const LauncherPrograms& programs, const std::filesystem::path& home,
                         const v1::RunSpec& spec);

// Everything that starting a run writes and executes.
struct LaunchPlan {
  MpirunCommand mpirun;
  // The command that this program executes: the supervisor, sbatch or kubectl.
  std::vector<std::string> start;
  std::string hostfile;  // its text; empty without a hostfile
  // The file for the scheduler, and its text; empty without a scheduler.
  std::filesystem::path submission;
  std::string submission_text;
};

// Plans a launch; a pure function. Requires `programs` from FindLauncherPrograms and a resolved
// `spec`; `job_name` is used only with a scheduler. InvalidArgument when a path cannot be used with
// the backend.
absl::StatusOr<LaunchPlan> PlanLaunch(const LauncherPrograms& programs, const MpirunSite& site,
                                      const std::filesystem::path& run_dir, const v1::RunSpec& spec,
                                      const std::string& job_name);

// Returns the site of this process: its environment, its user, and the installed mpirun.
absl::StatusOr<MpirunSite> LocalSite(const LauncherPrograms& programs, const v1::RunSpec& spec);

// Returns a name such as "braid-run-000001-0123abcd", from the name of the run directory and a
// nonce.
std::string JobName(const std::filesystem::path& run_dir, const std::string& nonce);

// Starts or submits the run whose resolved spec is in `run`. Safe to repeat after a crash at any
// moment. The exit.json of an earlier attempt is removed. FailedPrecondition when the run is alive
// or queued already, or when a program is missing. Unavailable when the scheduler did not answer;
// repeating the call then submits the run only if it was not submitted. Requires LockLaunch(run).
absl::Status StartLockedRun(const LauncherPrograms& programs, const RunDirectory& run);

// Returns whether StartLockedRun has ever recorded a process or a job of the run.
bool WasStarted(const RunDirectory& run);

}  // namespace braid

#endif  // BRAID_CONTROL_LAUNCH_LAUNCHER_H_
