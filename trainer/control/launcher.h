// Starts the trainer of a run under mpirun, detached: its output goes to a file
// and its session is its own, so it outlives whoever launched it.
#ifndef BRAID_TRAINER_CONTROL_LAUNCHER_H_
#define BRAID_TRAINER_CONTROL_LAUNCHER_H_

#include <filesystem>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "braid/v1/training.pb.h"
#include "trainer/control/process_identity.h"
#include "trainer/run_directory.h"

namespace braid {

// The programs of a launch: paths, or names that are looked up in PATH.
struct LauncherPrograms {
  std::string mpirun = "mpirun";
  std::string trainer = "braid-trainer";
};

// FailedPrecondition, with what to install, when one is missing; else both as
// absolute paths.
absl::StatusOr<LauncherPrograms> FindLauncherPrograms(const LauncherPrograms& programs);

struct LaunchPlan {
  std::vector<std::string> arguments;
  std::vector<std::string> environment;  // "NAME=value"
};

// Pure: the argument vector and environment that train `spec` in `run_dir`.
// `environment` is what is passed on of ours.
LaunchPlan PlanLaunch(const LauncherPrograms& programs, const std::filesystem::path& run_dir,
                      const v1::RunSpec& spec, const std::vector<std::string>& environment,
                      bool as_root);

// Starts the run whose resolved spec is in `run`. process.json is durable before
// the program runs; an exit.json of an earlier attempt is removed.
// FailedPrecondition when the run has a live process already, or a program is
// missing.
absl::StatusOr<ProcessRecord> LaunchTrainer(const LauncherPrograms& programs,
                                            const RunDirectory& run);

}  // namespace braid

#endif  // BRAID_TRAINER_CONTROL_LAUNCHER_H_
