// The options of `braid train` that say where its ranks are started.
#ifndef BRAID_CLI_LAUNCH_OPTIONS_H_
#define BRAID_CLI_LAUNCH_OPTIONS_H_

#include <CLI/CLI.hpp>
#include <ostream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "braid/v1/training.pb.h"
#include "client/grpc_connection.h"
#include "control/launch/launcher.h"

namespace braid {

struct LaunchOptions {
  std::string backend, hosts, hostfile, interface;
  v1::SlurmConfig slurm;
  v1::KubernetesConfig kubernetes;
  bool print = false;

  void AddTo(CLI::App* command);
  // Sets what was given; the rest of `launch` stays as a configuration file has it.
  absl::Status Apply(v1::LaunchConfig* launch) const;

 private:
  void AddSlurm(CLI::App* command);
  void AddKubernetes(CLI::App* command);
};

// "a:2,b" -> a with 2 slots, b with the default. InvalidArgument names what is not so.
absl::StatusOr<std::vector<v1::HostSlots>> ParseHostList(const std::string& list);

// As mpirun reads it: "HOST [slots=N]" a line, # comments. InvalidArgument names the line.
absl::StatusOr<std::vector<v1::HostSlots>> ParseHostfile(const std::string& text);

// The programs that an embedded service launches.
LauncherPrograms ProgramsOf(const ConnectionOptions& options);

// What launching `spec` here would write and execute, without doing either.
absl::Status PrintLaunch(const ConnectionOptions& options, const v1::RunSpec& spec,
                         std::ostream& out);

}  // namespace braid

#endif  // BRAID_CLI_LAUNCH_OPTIONS_H_
