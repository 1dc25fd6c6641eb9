// Identifiers of single calls, for logs, errors and metadata on both sides.
#ifndef BRAID_RPC_REQUEST_ID_H_
#define BRAID_RPC_REQUEST_ID_H_

#include <string>
#include <string_view>

namespace braid {

// Key of the id in the metadata of the client and in the trailing metadata of the server.
inline constexpr char kRequestIdKey[] = "x-request-id";

// Returns whether `text` is a valid id: 1 to 64 letters, digits, ".", "_" and "-".
bool IsRequestId(std::string_view text);

// Returns 16 random hexadecimal digits.
std::string NewCallId();

}  // namespace braid

#endif  // BRAID_RPC_REQUEST_ID_H_
