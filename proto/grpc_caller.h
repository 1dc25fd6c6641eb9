// Who a call comes from, as the server's authentication established it.
#ifndef BRAID_PROTO_GRPC_CALLER_H_
#define BRAID_PROTO_GRPC_CALLER_H_

#include <grpcpp/server_context.h>

#include <string>

namespace braid {

// The property of a connection's AuthContext that holds the caller's name.
inline constexpr char kPrincipalProperty[] = "braid_principal";

// The name of the caller: of quotas, of who submitted what, and of the log. "local" where
// nobody is asked for a name: in the same process, and on loopback without tokens.
std::string PrincipalOf(const grpc::ServerContextBase& context);

}  // namespace braid

#endif  // BRAID_PROTO_GRPC_CALLER_H_
