// Checks of this machine that take no more than a moment.
#ifndef BRAID_CLI_MACHINE_CHECKS_H_
#define BRAID_CLI_MACHINE_CHECKS_H_

#include <filesystem>
#include <string>

#include "cli/finding.h"
#include "rpc/tls_files.h"

namespace braid {

// Checks the program `mpirun` and its version, the sibling programs of this one, Slurm where it is
// installed, whether `home` is writable, how the databases in `state` (or in `home` if it is empty)
// are opened, and the limits of open files and shared memory.
Findings CheckMachine(const std::filesystem::path& home, const std::filesystem::path& state = {},
                      const std::string& mpirun = "mpirun");

// Checks when the tokens in `home` and the certificates in `tls` expire.
Findings CheckExpiries(const std::filesystem::path& home, const TlsFiles& tls);

}  // namespace braid

#endif  // BRAID_CLI_MACHINE_CHECKS_H_
