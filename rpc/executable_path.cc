#include "rpc/executable_path.h"

#include <cstdlib>

namespace braid {

std::filesystem::path SiblingProgram(const std::string& name) {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path() / name;
}

std::filesystem::path DefaultHome() {
  if (const char* home = std::getenv("BRAID_HOME"); home != nullptr && *home != '\0') return home;
  if (const char* home = std::getenv("HOME"); home != nullptr && *home != '\0') {
    return std::filesystem::path(home) / ".braid";
  }
  return ".braid";
}

}  // namespace braid
