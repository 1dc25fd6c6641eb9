// The causes of failed connections, in terms of the user's settings instead of the library's.
#ifndef BRAID_RPC_CONNECTION_ERROR_H_
#define BRAID_RPC_CONNECTION_ERROR_H_

#include <string>

#include "absl/status/status.h"
#include "rpc/tls_files.h"

namespace braid {

// Returns `status` with a message of a few words, such as "connection refused", if it is the error
// of a gRPC call that found no connection; other errors unchanged.
absl::Status PlainConnectionError(const absl::Status& status);

// Returns the error of a gRPC call that the braidd at `address` did not answer, in words for a
// user: UNAVAILABLE "braidd at HOST:PORT went away: connection refused", or DEADLINE_EXCEEDED
// "braidd at HOST:PORT did not answer in time" with the command that checks it. Other errors, which
// its library makes from answers that it cannot read, unchanged.
absl::Status UnansweredCallError(const std::string& address, const absl::Status& status);

// Returns INVALID_ARGUMENT, naming the option and the file, when one of the three is missing or is
// not PEM, or the key does not belong to the certificate; the errors of reading them.
absl::Status CheckTlsFiles(const TlsFiles& tls);

// Connects to `address`, HOST:PORT, and with TLS files up to the end of the handshake, to find out
// why gRPC does not get a connection. Takes at most `seconds`. Errors, each naming the address:
// UNAVAILABLE when the host does not resolve, the connection is refused, the server does not
// answer, or one side rejects the certificate of the other, with the reason. OK when a connection
// is made. Requires files that CheckTlsFiles accepts.
absl::Status DiagnoseConnection(const std::string& address, const TlsFiles& tls, int seconds);

}  // namespace braid

#endif  // BRAID_RPC_CONNECTION_ERROR_H_
