// RunSpec.launch made complete and checked: where the ranks of a run are started.
//
// Everything in it comes from a client and ends in an argument vector or in a file that
// mpirun, Slurm or Kubernetes reads. No shell is involved anywhere, but Open MPI's rsh
// launcher builds a command line for the remote shell itself, and a hostfile or an #SBATCH
// line has a syntax of its own. So each text is held to the characters that its kind of name
// is made of; nothing is ever quoted.
#ifndef BRAID_RUNS_LAUNCH_CONFIG_H_
#define BRAID_RUNS_LAUNCH_CONFIG_H_

#include <cstdint>
#include <string_view>

#include "absl/status/status.h"
#include "braid/v1/training.pb.h"

namespace braid {

// Fills in spec->launch() and, when it is 0, world_size: the slots of all hosts, a rank for
// each node or worker, or 1. InvalidArgument names the field, what it got and what it must be.
// Resolving twice changes nothing.
absl::Status ResolveLaunch(v1::RunSpec* spec);

// The most ranks that a resolved spec puts on one machine (host, node or pod).
int32_t RanksPerMachine(const v1::RunSpec& resolved);

// All slots of the hosts; 0 without hosts.
int64_t TotalSlots(const v1::LaunchConfig& launch);

// A path that may stand in a batch script, a manifest and on a remote command line:
// absolute, of letters, digits and ._-+ between single slashes, without "." and ".." parts.
bool IsPlainPath(std::string_view path);

// InvalidArgument unless IsPlainPath(path); `what` names it.
absl::Status CheckPlainPath(std::string_view what, std::string_view path);

}  // namespace braid

#endif  // BRAID_RUNS_LAUNCH_CONFIG_H_
