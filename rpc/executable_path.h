// Paths of programs installed beside this one, and of the home directory.
#ifndef BRAID_RPC_EXECUTABLE_PATH_H_
#define BRAID_RPC_EXECUTABLE_PATH_H_

#include <filesystem>
#include <string>

namespace braid {

// Returns the path "<directory of this executable>/<name>".
std::filesystem::path SiblingProgram(const std::string& name);

// Returns $BRAID_HOME; without it ~/.braid; without a home directory ./.braid.
std::filesystem::path DefaultHome();

}  // namespace braid

#endif  // BRAID_RPC_EXECUTABLE_PATH_H_
