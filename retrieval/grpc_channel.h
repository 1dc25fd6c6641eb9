// Channels to embedding and neighbour servers.
#ifndef BRAID_RETRIEVAL_GRPC_CHANNEL_H_
#define BRAID_RETRIEVAL_GRPC_CHANNEL_H_

#include <grpcpp/channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/support/client_interceptor.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace braid {

// What clients show to servers, and of whom they expect what.
struct RetrievalIdentity {
  using Interceptors =
      std::vector<std::unique_ptr<grpc::experimental::ClientInterceptorFactoryInterface>>;

  // Null is plain text.
  std::shared_ptr<grpc::ChannelCredentials> credentials = nullptr;
  // What goes with every call to the server at an address, such as a token. May be null.
  std::function<Interceptors(const std::string& address)> call_identity = nullptr;
};

// For the whole process; at first it is RetrievalIdentity{}. Clients that are there already
// keep theirs.
void SetRetrievalIdentity(RetrievalIdentity identity);

// INVALID_ARGUMENT unless HOST:PORT with a port from 1 to 65535. `what` is named in it.
absl::Status CheckServerAddress(const std::string& what, const std::string& address);

// Connects when first used, and again within seconds of a server's return.
std::shared_ptr<grpc::Channel> OpenRetrievalChannel(const std::string& address);

// `status` of a call; of a server that does not know who calls it says what to do.
absl::Status ExplainRefusal(const absl::Status& status);

}  // namespace braid

#endif  // BRAID_RETRIEVAL_GRPC_CHANNEL_H_
