// The name of one call in logs, errors and metadata, on both sides.
#ifndef BRAID_RPC_REQUEST_ID_H_
#define BRAID_RPC_REQUEST_ID_H_

#include <string>
#include <string_view>

namespace braid {

// Of the client's metadata, and of the server's trailing metadata.
inline constexpr char kRequestIdKey[] = "x-request-id";

// 1 to 64 letters, digits, ".", "_" and "-".
bool IsRequestId(std::string_view text);

// 16 random hexadecimal digits.
std::string NewCallId();

}  // namespace braid

#endif  // BRAID_RPC_REQUEST_ID_H_
