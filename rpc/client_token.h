// Where a client finds its token: never on the command line, which every user of a machine
// can read.
#ifndef BRAID_RPC_CLIENT_TOKEN_H_
#define BRAID_RPC_CLIENT_TOKEN_H_

#include <filesystem>
#include <string>

#include "absl/status/statusor.h"

namespace braid {

// The token in `file`; without one that in $BRAID_TOKEN; without that in `fallback`, if there is
// such a file. "" when there is none. NOT_FOUND for a missing `file`, FAILED_PRECONDITION for a
// file that others may read, INVALID_ARGUMENT for what is no token, which is not quoted.
absl::StatusOr<std::string> ReadClientToken(const std::filesystem::path& file,
                                            const std::filesystem::path& fallback);

}  // namespace braid

#endif  // BRAID_RPC_CLIENT_TOKEN_H_
