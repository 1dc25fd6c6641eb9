// Reads the access token of a client. Tokens are never passed on the command line, which every user
// of the machine can read.
#ifndef BRAID_RPC_CLIENT_TOKEN_H_
#define BRAID_RPC_CLIENT_TOKEN_H_

#include <filesystem>
#include <string>

#include "absl/status/statusor.h"

namespace braid {

// Returns the token in `file`; without `file`, the one in $BRAID_TOKEN; without that, the one in
// `fallback` if that file exists; otherwise "". NOT_FOUND if `file` does not exist,
// FAILED_PRECONDITION for a file that other users may read, INVALID_ARGUMENT for text that is not a
// token (which the message does not quote).
absl::StatusOr<std::string> ReadClientToken(const std::filesystem::path& file,
                                            const std::filesystem::path& fallback);

}  // namespace braid

#endif  // BRAID_RPC_CLIENT_TOKEN_H_
