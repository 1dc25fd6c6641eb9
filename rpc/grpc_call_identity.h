// Metadata that a client adds to every call: the access token, and a request id that errors of the
// server mention.
#ifndef BRAID_RPC_GRPC_CALL_IDENTITY_H_
#define BRAID_RPC_GRPC_CALL_IDENTITY_H_

#include <grpcpp/support/client_interceptor.h>

#include <memory>
#include <string>
#include <vector>

namespace braid {

// Returns interceptors for CreateCustomChannelWithInterceptors. `token` may be empty. `braidd`: the
// address of the server, if that is a braidd; an error that it did not send is then replaced by
// UnansweredCallError. Other servers leave it empty, and the errors of the library as they are.
// (Call credentials would be the usual way to send a token, but gRPC refuses them on channels
// without TLS, such as loopback.)
std::vector<std::unique_ptr<grpc::experimental::ClientInterceptorFactoryInterface>> CallIdentity(
    std::string token, std::string braidd = "");

}  // namespace braid

#endif  // BRAID_RPC_GRPC_CALL_IDENTITY_H_
