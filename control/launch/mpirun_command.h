// The mpirun of a run: its argument vector and environment, for the series 4 and 5 of Open
// MPI. Pure functions except for DetectOpenMpi.
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

// Series 5 has another launcher (PRRTE), whose parameters have other names.
enum class OpenMpiSeries { k4, k5 };

// Parses the output of `mpirun --version`. FailedPrecondition for another MPI, or a series
// before 4.
absl::StatusOr<OpenMpiSeries> ParseOpenMpiVersion(std::string_view output);

// Runs `mpirun --version`. FailedPrecondition also when it does not answer within 20 seconds.
absl::StatusOr<OpenMpiSeries> DetectOpenMpi(const std::string& mpirun);

// The settings of the service that no client can change.
struct MpirunSite {
  // Absolute paths; the trainer's must be the same on every host.
  std::string mpirun;
  std::string trainer;
  // Starts a command on another host as `AGENT HOST COMMAND...`; empty: ssh.
  std::string remote_agent;
  OpenMpiSeries series = OpenMpiSeries::k4;
  // "NAME=value": the variables of the service's environment that may reach a rank.
  std::vector<std::string> environment;
  bool as_root = false;
};

struct MpirunCommand {
  std::vector<std::string> arguments;
  // The whole environment of mpirun, except what Slurm or the pod adds.
  std::map<std::string, std::string> variables;
};

// Plans the mpirun of a run. Requires a resolved `spec`. Ranks on other hosts get the variables
// that -x names; the arguments never hold values. BRAID_RUN_NONCE, which the supervisor sets for
// each attempt, is always among them.
MpirunCommand PlanMpirun(const MpirunSite& site, const std::filesystem::path& run_dir,
                         const v1::RunSpec& spec);

// Returns the text of the hostfile, which the arguments of backend HOSTFILE name.
std::string HostfileText(const v1::LaunchConfig& launch);

// Returns the text of launch.json: {"arguments": [...], "variables": {"NAME": "value"}}, and with a
// hostfile "hostfile": TEXT, with which the file is compared before each attempt.
std::string LaunchJson(const MpirunCommand& command, const std::string& hostfile);

}  // namespace braid

#endif  // BRAID_CONTROL_LAUNCH_MPIRUN_COMMAND_H_
