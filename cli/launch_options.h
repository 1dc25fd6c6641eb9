// The options of `braid train` that select where and how its ranks are started.
#ifndef BRAID_CLI_LAUNCH_OPTIONS_H_
#define BRAID_CLI_LAUNCH_OPTIONS_H_

#include <CLI/CLI.hpp>
#include <ostream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "braid/v1/training.pb.h"
#include "cli/field_flags.h"
#include "client/session.h"
#include "control/launch/launcher.h"

namespace braid {

struct LaunchOptions {
  std::string backend, hosts, hostfile;
  FieldFlags fields{"braid.v1.LaunchConfig", "launch."};
  // --print-launch.
  bool print = false;

  void AddTo(CLI::App* command);
  // Sets the fields whose options were given; other fields of `launch` keep their values.
  // InvalidArgument for a malformed list of hosts, NotFound for a missing hostfile.
  absl::Status Apply(v1::LaunchConfig* launch) const;
};

// Parses "a:2,b" into host a with 2 slots and host b with the default. InvalidArgument names the
// malformed entry.
absl::StatusOr<std::vector<v1::HostSlots>> ParseHostList(const std::string& list);

// Parses an Open MPI hostfile: one "HOST [slots=N]" per line, with comments after '#'.
// InvalidArgument names the malformed line.
absl::StatusOr<std::vector<v1::HostSlots>> ParseHostfile(const std::string& text);

// Returns the paths of the programs that services in this process launch.
LauncherPrograms ProgramsOf(const ConnectionOptions& options);

// Prints the files that launching `spec` on this machine would write and the commands that it would
// execute, without writing or executing anything; with --json, as an object of "executed", "files"
// (path to text), "mpirun" and "variables". `spec.init_from` may be the id of a run.
// InvalidArgument with --server.
absl::Status PrintLaunch(Session& session, v1::RunSpec spec, std::ostream& out);

}  // namespace braid

#endif  // BRAID_CLI_LAUNCH_OPTIONS_H_
