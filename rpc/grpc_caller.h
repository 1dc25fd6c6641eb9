// Who a call comes from. The gate in front of the services (server/access/grpc_gate.h)
// establishes it and passes it on with every call that it lets through.
//
// It travels as metadata of the one call, not in the connection's AuthContext, which all calls
// of a connection share. What names it is a secret of this process, so a client that reaches a
// service past the gate cannot claim to be anybody.
#ifndef BRAID_RPC_GRPC_CALLER_H_
#define BRAID_RPC_GRPC_CALLER_H_

#include <grpcpp/client_context.h>
#include <grpcpp/server_context.h>

#include <string>

#include "absl/status/status.h"

namespace braid {

// The name of the caller: of quotas, of who submitted what, and of the log. "local" where
// nobody is asked for a name: in the same process, and on loopback without tokens.
std::string PrincipalOf(const grpc::ServerContextBase& context);

// Whether the caller may change what belongs to `owner`: its own, and everybody's in the role of
// operator, which callers without a name have.
bool MayManage(const grpc::ServerContextBase& context, const std::string& owner);

// PermissionDenied, with who asked and whose `what` ("job-000001") is, unless MayManage.
absl::Status CheckMayManage(const grpc::ServerContextBase& context, const std::string& what,
                            const std::string& owner);

// For calls within this process: makes `name` the caller that the functions above see.
void SetCaller(const std::string& name, bool is_operator, grpc::ClientContext* context);

}  // namespace braid

#endif  // BRAID_RPC_GRPC_CALLER_H_
