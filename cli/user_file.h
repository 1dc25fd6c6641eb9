// Reading of files that users name on command lines.
#ifndef BRAID_CLI_USER_FILE_H_
#define BRAID_CLI_USER_FILE_H_

#include <string>

#include "absl/status/statusor.h"

namespace braid {

// Reads a text file that the user names, such as settings. Errors: those of ReadFile, and
// INVALID_ARGUMENT for a file of more than 64 MiB, such as /dev/zero.
absl::StatusOr<std::string> ReadUserFile(const std::string& path);

}  // namespace braid

#endif  // BRAID_CLI_USER_FILE_H_
