// What every call of a client carries besides its request: the token, and a request id that
// errors of the call name.
#ifndef BRAID_RPC_GRPC_CALL_IDENTITY_H_
#define BRAID_RPC_GRPC_CALL_IDENTITY_H_

#include <grpcpp/support/client_interceptor.h>

#include <memory>
#include <string>
#include <vector>

namespace braid {

// For CreateCustomChannelWithInterceptors. `token` may be empty. (Call credentials would do for
// TLS alone; gRPC refuses them on a channel without, such as loopback.)
std::vector<std::unique_ptr<grpc::experimental::ClientInterceptorFactoryInterface>> CallIdentity(
    std::string token);

}  // namespace braid

#endif  // BRAID_RPC_GRPC_CALL_IDENTITY_H_
