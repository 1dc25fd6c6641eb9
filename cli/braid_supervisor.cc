// braid-supervisor: keeps one run alive from launch to end; docs/control.md.
#include <signal.h>

#include <iostream>
#include <optional>
#include <string>

#include "cli/child_arguments.h"
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
  SupervisorOptions options;
  SupervisorArguments arguments = {.stop_grace_seconds = options.stop_grace_seconds,
                                   .kill_grace_seconds = options.kill_grace_seconds};
  if (const auto end = ParseSupervisorArguments(argc, argv, &arguments)) return *end;
  options.reattach = arguments.reattach;
  options.stop_grace_seconds = arguments.stop_grace_seconds;
  options.kill_grace_seconds = arguments.kill_grace_seconds;
  return Supervise(arguments.run_dir, options);
}

}  // namespace
}  // namespace braid

int main(int argc, char** argv) { return braid::Main(argc, argv); }
