// braid-supervisor: keeps one run alive from launch to end; docs/control.md.
#include <signal.h>

#include <iostream>
#include <string>

#include "CLI/CLI.hpp"
#include "control/supervision/supervisor.h"

namespace braid {
namespace {

// Another supervisor has the run.
constexpr int kExitSupervised = 4;

volatile sig_atomic_t g_stop = 0;

void CatchSignals() {
  struct sigaction action = {};
  action.sa_handler = [](int) { g_stop = 1; };
  action.sa_flags = SA_RESTART;
  for (int number : {SIGTERM, SIGINT}) sigaction(number, &action, nullptr);
  signal(SIGHUP, SIG_IGN);
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN);
}

int Report(const absl::Status& status) {
  std::cerr << "braid-supervisor: " << status.message() << std::endl;
  if (absl::IsAlreadyExists(status)) return kExitSupervised;
  return absl::IsNotFound(status) ? kExitNotFound : kExitFailed;
}

int Supervise(const std::string& run_dir, const SupervisorOptions& options) {
  CatchSignals();
  const auto path = std::filesystem::absolute(run_dir).lexically_normal();
  auto supervisor = Supervisor::Open(RunDirectory(path), options);
  if (!supervisor.ok()) return Report(supervisor.status());
  const absl::StatusOr<v1::RunState> end = (*supervisor)->Run([] { return g_stop != 0; });
  if (!end.ok()) return Report(end.status());
  if (*end == v1::RUN_STOPPED) return kExitStopped;
  return *end == v1::RUN_SUCCEEDED ? kExitDone : kExitFailed;
}

int Main(int argc, char** argv) {
  CLI::App app(
      "Supervise the run in RUN_DIR until it has ended: start mpirun as launch.json says, restart "
      "it after failures, and record what happens in events.jsonl. SIGTERM stops the run with a "
      "checkpoint.\n\nExit codes: 0 the run has succeeded; 1 it has failed, or its directory "
      "cannot "
      "be used; 2 usage error; 3 RUN_DIR is not a run directory; 4 another supervisor has the run; "
      "75 it was stopped.");
  std::string run_dir;
  SupervisorOptions options;
  app.add_option("RUN_DIR", run_dir, "directory with run.textproto and launch.json")->required();
  std::string script;
  app.add_option("SCRIPT", script, "ignored: a batch script whose first line is this program");
  app.add_flag("--reattach", options.reattach,
               "re-attach to a run whose supervisor died; exit if the run has ended");
  app.add_option("--stop-grace", options.stop_grace_seconds,
                 "seconds from a request to stop until mpirun is ended")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber);
  app.add_option("--kill-grace", options.kill_grace_seconds,
                 "seconds from then until all is killed")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? kExitDone : kExitUsage;
  }
  return Supervise(run_dir, options);
}

}  // namespace
}  // namespace braid

int main(int argc, char** argv) { return braid::Main(argc, argv); }
