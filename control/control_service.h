// The control plane: launches, watches and stops runs, and serves and evaluates their models. The
// services may be served by several processes over the same HOME at once and be restarted at any
// time, without effect on runs.
//
//   HOME/runs.sqlite     the runs
//   HOME/runs/<id>/      run directories
//   HOME/requests/       requests of evaluations in progress
#ifndef BRAID_CONTROL_CONTROL_SERVICE_H_
#define BRAID_CONTROL_CONTROL_SERVICE_H_

#include <grpcpp/impl/service_type.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "control/launch/launcher.h"
#include "control/model_server.h"

namespace braid {

struct ControlOptions {
  std::filesystem::path home;
  // Directory of runs.sqlite; empty: `home`.
  std::filesystem::path state = {};
  // A path, or a name that is looked up in PATH.
  std::filesystem::path trainer_binary = "braid-trainer";
  std::filesystem::path supervisor_binary = "braid-supervisor";
  std::string mpirun = "mpirun";
  // Starts a command on another host; empty: ssh. See LauncherPrograms.
  std::string remote_agent = {};
  // Limits per principal: active runs, their ranks, open watches, and calls in progress of
  // AnalysisService that compute with a model. 0: no limit.
  int64_t max_runs = 0;
  int64_t max_ranks = 0;
  int64_t max_watches = 0;
  int64_t max_evaluations = 0;
  // Options of GenerationService; the program in them is replaced by trainer_binary.
  ModelServerOptions serving = {};
};

// Returns the programs that launches use.
LauncherPrograms ProgramsOf(const ControlOptions& options);

// Create the services. FailedPrecondition when HOME cannot be used.
absl::StatusOr<std::unique_ptr<grpc::Service>> MakeTrainingService(const ControlOptions& options);
absl::StatusOr<std::unique_ptr<grpc::Service>> MakeAnalysisService(const ControlOptions& options);
absl::StatusOr<std::unique_ptr<grpc::Service>> MakeGenerationService(const ControlOptions& options);

}  // namespace braid

#endif  // BRAID_CONTROL_CONTROL_SERVICE_H_
