// The identity of a caller. The gate in front of the services (server/access/grpc_gate.h)
// establishes it and attaches it to every call that it lets through.
//
// It is metadata of the single call, not part of the connection's AuthContext, which all calls of a
// connection share. The metadata contains a secret of this process, so a client that reaches a
// service without passing the gate cannot forge it.
#ifndef BRAID_RPC_GRPC_CALLER_H_
#define BRAID_RPC_GRPC_CALLER_H_

#include <grpcpp/client_context.h>
#include <grpcpp/server_context.h>

#include <string>

#include "absl/status/status.h"

namespace braid {

// Returns the name of the caller, used for quotas, ownership and logs. "local" for callers without
// a name: those in the same process, and on loopback without tokens.
std::string PrincipalOf(const grpc::ServerContextBase& context);

// Returns whether the caller may change what belongs to `owner`: callers may change their own jobs
// and runs; operators, and callers without a name, those of all users.
bool MayManage(const grpc::ServerContextBase& context, const std::string& owner);

// Returns PERMISSION_DENIED unless MayManage; the message names the caller, the owner and `what`
// ("job-000001").
absl::Status CheckMayManage(const grpc::ServerContextBase& context, const std::string& what,
                            const std::string& owner);

// Sets the caller that the functions above return, for calls within this process.
void SetCaller(const std::string& name, bool is_operator, grpc::ClientContext* context);

}  // namespace braid

#endif  // BRAID_RPC_GRPC_CALLER_H_
