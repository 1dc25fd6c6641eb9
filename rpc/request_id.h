// Identifiers of single calls, for logs, errors and metadata on both sides, and keys of requests
// that may be repeated.
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

// Returns the key under which a service stores a request of `principal` with the idempotency key
// `request_id`. Different principals have different keys, so none finds the request of another.
std::string RequestKey(std::string_view principal, std::string_view request_id);

}  // namespace braid

#endif  // BRAID_RPC_REQUEST_ID_H_
