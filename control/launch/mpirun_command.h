// The mpirun of a run: its argument vector and environment, for the series 4 and 5 of Open
// MPI. Pure but for DetectOpenMpi; docs/launching.md shows the vectors.
#ifndef BRAID_CONTROL_LAUNCH_MPIRUN_COMMAND_H_
#define BRAID_CONTROL_LAUNCH_MPIRUN_COMMAND_H_

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "braid/v1/training.pb.h"

namespace braid {

// Series 5 has another launcher (PRRTE), with other names for its parameters.
enum class OpenMpiSeries { k4, k5 };

// Of what `mpirun --version` prints. FailedPrecondition when that is another MPI, or a
// series before 4.
absl::StatusOr<OpenMpiSeries> ParseOpenMpiVersion(std::string_view output);

// Asks the program. FailedPrecondition also when it does not answer within 20 seconds.
absl::StatusOr<OpenMpiSeries> DetectOpenMpi(const std::string& mpirun);

// What the service knows and no client can change.
struct MpirunSite {
  // Absolute paths; the trainer's must be the same on every host.
  std::string mpirun;
  std::string trainer;
  // Starts a command on another host as `AGENT HOST COMMAND...`; empty: ssh.
  std::string remote_agent;
  OpenMpiSeries series = OpenMpiSeries::k4;
  // "NAME=value": what of the service's environment may reach a rank.
  std::vector<std::string> environment;
  bool as_root = false;
};

struct MpirunCommand {
  std::vector<std::string> arguments;
  // The whole environment of mpirun, but for what Slurm or the pod adds.
  std::map<std::string, std::string> variables;
};

// `spec` must be resolved. Ranks on other hosts get the variables that are named by -x, in
// the arguments without their values; BRAID_RUN_NONCE, which the supervisor sets anew for
// each attempt, is always among them.
MpirunCommand PlanMpirun(const MpirunSite& site, const std::filesystem::path& run_dir,
                         const v1::RunSpec& spec);

// RUN_DIR/hostfile, which the arguments of backend HOSTFILE name.
std::filesystem::path HostfileOf(const std::filesystem::path& run_dir);
std::string HostfileText(const v1::LaunchConfig& launch);

// launch.json: {"arguments": [...], "variables": {"NAME": "value"}}.
std::string LaunchJson(const MpirunCommand& command);

}  // namespace braid

#endif  // BRAID_CONTROL_LAUNCH_MPIRUN_COMMAND_H_
