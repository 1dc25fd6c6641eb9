// Checks of this machine that take no more than a moment.
#ifndef BRAID_CLI_MACHINE_CHECKS_H_
#define BRAID_CLI_MACHINE_CHECKS_H_

#include <filesystem>

#include "cli/finding.h"

namespace braid {

// Checks mpirun and its version, the sibling programs of this one, Slurm where it is installed,
// whether `home` is writable, and the limits of open files and shared memory.
Findings CheckMachine(const std::filesystem::path& home);

}  // namespace braid

#endif  // BRAID_CLI_MACHINE_CHECKS_H_
