// Transport security: loopback needs none; any other address needs mutual TLS or an explicit
// decision to do without.
#ifndef BRAID_RPC_GRPC_CREDENTIALS_H_
#define BRAID_RPC_GRPC_CREDENTIALS_H_

#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "rpc/grpc_reloaded_tls.h"
#include "rpc/tls_files.h"

namespace braid {

bool IsLoopback(const std::string& address);

// Returns the credentials of a server at `address`: those of `tls`, or none if that is null, which
// is INVALID_ARGUMENT beyond loopback unless `insecure`.
absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> MakeServerCredentials(
    const std::string& address, const ReloadedTls* tls, bool insecure);
absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> MakeChannelCredentials(
    const std::string& address, const TlsFiles& tls, bool insecure);

}  // namespace braid

#endif  // BRAID_RPC_GRPC_CREDENTIALS_H_
