// Where this program and the ones built beside it are.
#ifndef BRAID_RPC_EXECUTABLE_PATH_H_
#define BRAID_RPC_EXECUTABLE_PATH_H_

#include <filesystem>
#include <string>

namespace braid {

// The file "<directory of this executable>/<name>".
std::filesystem::path SiblingProgram(const std::string& name);

// $BRAID_HOME, or ~/.braid, or ./.braid without a home directory.
std::filesystem::path DefaultHome();

}  // namespace braid

#endif  // BRAID_RPC_EXECUTABLE_PATH_H_
