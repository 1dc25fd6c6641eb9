// The programs of the command line and of the server, compiled with the commands: their headers
// take most of the time to compile.
#ifndef BRAID_CLI_PROGRAMS_H_
#define BRAID_CLI_PROGRAMS_H_

#include <string>

namespace braid {

// Run a program and return its exit code. `version` is what --version prints after its name.
int BraidMain(int argc, char** argv, const std::string& version);
int BraiddMain(int argc, char** argv, const std::string& version);

}  // namespace braid

#endif  // BRAID_CLI_PROGRAMS_H_
