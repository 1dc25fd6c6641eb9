// Channels to embedding and neighbor servers.
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

// The credentials by which clients authenticate themselves and their servers.
struct RetrievalIdentity {
  using Interceptors =
      std::vector<std::unique_ptr<grpc::experimental::ClientInterceptorFactoryInterface>>;

  // Null: no encryption.
  std::shared_ptr<grpc::ChannelCredentials> credentials = nullptr;
  // Returns interceptors that add metadata, such as a token, to calls to the server at an address.
  // May be null.
  std::function<Interceptors(const std::string& address)> call_identity = nullptr;
};

// Sets the identity of the whole process, which is initially RetrievalIdentity{}. Existing clients
// keep theirs.
void SetRetrievalIdentity(RetrievalIdentity identity);

// Opens a channel that connects at first use, and again within seconds after the server restarts.
std::shared_ptr<grpc::Channel> OpenRetrievalChannel(const std::string& address);

// Returns `status`; for a server that rejected the credentials of the call, with a hint what to do.
absl::Status ExplainRefusal(const absl::Status& status);

}  // namespace braid

#endif  // BRAID_RETRIEVAL_GRPC_CHANNEL_H_
