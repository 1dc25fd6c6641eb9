// braid-supervisor: keeps one run alive from launch to end; docs/control.md.
#include <signal.h>

#include <iostream>
#include <optional>
#include <string>

#include "CLI/CLI.hpp"
#include "cli/arguments.h"
#include "control/launch/slurm_allocation.h"
#include "control/supervision/supervisor.h"

namespace braid {
namespace {

// Another supervisor holds the lock of the run.
constexpr int kExitSupervised = 4;

volatile sig_atomic_t g_stop = 0;
volatile sig_atomic_t g_time_limit = 0;

StopSignal NewestSignal() {
  if (g_stop != 0) return StopSignal::kStop;
  return g_time_limit != 0 ? StopSignal::kTimeLimit : StopSignal::kNone;
}

void CatchSignals() {
  struct sigaction action = {};
  action.sa_handler = [](int) { g_stop = 1; };
  action.sa_flags = SA_RESTART;
  for (int number : {SIGTERM, SIGINT}) sigaction(number, &action, nullptr);
  action.sa_handler = [](int) { g_time_limit = 1; };
  sigaction(SIGUSR1, &action, nullptr);
  signal(SIGHUP, SIG_IGN);
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN);
}

int Report(const absl::Status& status) {
  std::cerr << "braid-supervisor: " << status.message() << std::endl;
  if (absl::IsAlreadyExists(status)) return kExitSupervised;
  return absl::IsNotFound(status) ? kExitNotFound : kExitFailed;
}

int Supervise(const std::string& run_dir, SupervisorOptions options) {
  CatchSignals();
  const RunDirectory run(std::filesystem::absolute(run_dir).lexically_normal());
  const std::optional<SlurmAllocation> job = OwnSlurmJob(run);
  if (job) {
    const absl::Status newest = CheckNewestJob(*job, run);
    if (!newest.ok()) return Report(newest);
    options.job = JobOfSupervisor(*job);
  }
  auto supervisor = Supervisor::Open(run, options);
  if (!supervisor.ok()) return Report(supervisor.status());
  const absl::StatusOr<v1::RunState> end = (*supervisor)->Run(NewestSignal);
  if (!end.ok()) return Report(end.status());
  // For Slurm a job whose run has stopped in order, at its time limit for example, is COMPLETED.
  if (*end == v1::RUN_STOPPED || *end == v1::RUN_QUEUED) return job ? kExitDone : kExitStopped;
  return *end == v1::RUN_SUCCEEDED ? kExitDone : kExitFailed;
}

int Main(int argc, char** argv) {
  CLI::App app(
      "Supervise the run in RUN_DIR until it ends: start mpirun as specified in launch.json, "
      "restart it after failures, and record events in events.jsonl. SIGTERM, or SIGUSR1 at the "
      "time limit of a job, stops the run after saving a checkpoint.\n\nExit codes: 0 the run "
      "succeeded; 1 the run failed or its directory is unusable; 2 usage error; 3 no run "
      "directory; 4 another supervisor holds the run; 75 the run was stopped (0 in a Slurm job).");
  std::string run_dir;
  SupervisorOptions options;
  app.add_option("RUN_DIR", run_dir, "Run directory with run.textproto and launch.json")
      ->required();
  std::string script;
  app.add_option("SCRIPT", script, "Ignored: the batch script whose interpreter is this program");
  app.add_flag("--reattach", options.reattach,
               "Re-attach to a run that has not ended; exit when it has ended");
  app.add_option("--stop-grace", options.stop_grace_seconds,
                 "Seconds from a stop request until mpirun is terminated")
      ->capture_default_str()
      ->check(AtLeastZero());
  app.add_option("--kill-grace", options.kill_grace_seconds,
                 "Seconds from then until all processes are killed")
      ->capture_default_str()
      ->check(AtLeastZero());
  if (const auto end = ParseArguments(app, "braid-supervisor", argc, argv)) return *end;
  return Supervise(run_dir, options);
}

}  // namespace
}  // namespace braid

int main(int argc, char** argv) { return braid::Main(argc, argv); }
