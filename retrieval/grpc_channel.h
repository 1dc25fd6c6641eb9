// Channels to embedding and neighbour servers.
#ifndef BRAID_RETRIEVAL_GRPC_CHANNEL_H_
#define BRAID_RETRIEVAL_GRPC_CHANNEL_H_

#include <grpcpp/channel.h>
#include <grpcpp/security/credentials.h>

#include <memory>
#include <string>

#include "absl/status/status.h"

namespace braid {

// What clients show, and of whom they expect what, when their options name no credentials;
// null (at first) is plain text. For the whole process; set before clients are made.
void SetRetrievalCredentials(std::shared_ptr<grpc::ChannelCredentials> credentials);

// INVALID_ARGUMENT unless HOST:PORT with a port from 1 to 65535. `what` is named in it.
absl::Status CheckServerAddress(const std::string& what, const std::string& address);

// Connects when first used, and again within seconds of a server's return.
std::shared_ptr<grpc::Channel> OpenRetrievalChannel(
    const std::string& address, std::shared_ptr<grpc::ChannelCredentials> credentials);

}  // namespace braid

#endif  // BRAID_RETRIEVAL_GRPC_CHANNEL_H_
