// Metadata that a client adds to every call: the access token, and a request id that errors of the
// call mention.
#ifndef BRAID_RPC_GRPC_CALL_IDENTITY_H_
#define BRAID_RPC_GRPC_CALL_IDENTITY_H_

#include <grpcpp/support/client_interceptor.h>

#include <memory>
#include <string>
#include <vector>

namespace braid {

// Returns interceptors for CreateCustomChannelWithInterceptors. `token` may be empty. (Call
// credentials would be the usual way, but gRPC refuses them on channels without TLS, such as
// loopback.)
std::vector<std::unique_ptr<grpc::experimental::ClientInterceptorFactoryInterface>> CallIdentity(
    std::string token);

}  // namespace braid

#endif  // BRAID_RPC_GRPC_CALL_IDENTITY_H_
