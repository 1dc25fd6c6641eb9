// What can be seen of this machine without starting anything long.
#ifndef BRAID_CLI_MACHINE_CHECKS_H_
#define BRAID_CLI_MACHINE_CHECKS_H_

#include <filesystem>

#include "cli/finding.h"

namespace braid {

// mpirun with its version, the programs beside this one, Slurm where it is installed, the
// directory of state, limits of files and of shared memory.
Findings CheckMachine(const std::filesystem::path& home);

}  // namespace braid

#endif  // BRAID_CLI_MACHINE_CHECKS_H_
