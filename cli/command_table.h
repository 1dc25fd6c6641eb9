// Every command of `braid`, in the order of its help.
#ifndef BRAID_CLI_COMMAND_TABLE_H_
#define BRAID_CLI_COMMAND_TABLE_H_

#include "cli/command.h"

namespace braid {

// Adds the global options and all commands to `program`.
void AddCommandTable(CommandLine& program);

}  // namespace braid

#endif  // BRAID_CLI_COMMAND_TABLE_H_
