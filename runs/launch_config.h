// Resolves and validates RunSpec.launch: where the ranks of a run start.
//
// All values come from a client and end up in an argument vector or in a file that mpirun, Slurm or
// Kubernetes reads. No shell is involved, but Open MPI's rsh launcher builds a command line for the
// remote shell, and hostfiles and #SBATCH lines have a syntax of their own. So each text is
// restricted to the characters its kind of name consists of, and nothing is ever quoted.
#ifndef BRAID_RUNS_LAUNCH_CONFIG_H_
#define BRAID_RUNS_LAUNCH_CONFIG_H_

#include <cstdint>
#include <string_view>

#include "absl/status/status.h"
#include "braid/v1/training.pb.h"

namespace braid {

// Fills in spec->launch() and, when it is 0, world_size: the slots of all hosts, one rank per node
// or worker, or 1. Idempotent. InvalidArgument names the field, what it got and what is expected.
absl::Status ResolveLaunch(v1::RunSpec* spec);

// Returns the largest number of ranks that a resolved spec puts on one machine (host, node or pod).
int32_t RanksPerMachine(const v1::RunSpec& resolved);

// Returns the sum of the slots of all hosts; 0 without hosts.
int64_t TotalSlots(const v1::LaunchConfig& launch);

// Returns whether a path is safe in a batch script, a manifest and a remote command line: absolute,
// made of letters, digits and ._-+ between single slashes, without "." and ".." parts.
bool IsPlainPath(std::string_view path);

// Returns InvalidArgument unless IsPlainPath(path); `what` names the path.
absl::Status CheckPlainPath(std::string_view what, std::string_view path);

}  // namespace braid

#endif  // BRAID_RUNS_LAUNCH_CONFIG_H_
