// Conversion between absl::Status and grpc::Status. Codes have the same numbers in both; messages
// are kept.
#ifndef BRAID_RPC_GRPC_STATUS_H_
#define BRAID_RPC_GRPC_STATUS_H_

#include <grpcpp/support/status.h>

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace braid {

grpc::Status ToGrpc(const absl::Status& status);
absl::Status FromGrpc(const grpc::Status& status);

// Returns whether gRPC, in this process or in the server, has ended the call because its deadline
// had passed.
bool IsPassedDeadline(const grpc::Status& status);

// Moves a message into the response of a call, or returns its error.
template <class Message>
grpc::Status Reply(absl::StatusOr<Message> message, Message* response) {
  if (!message.ok()) return ToGrpc(message.status());
  *response = *std::move(message);
  return grpc::Status::OK;
}

}  // namespace braid

#endif  // BRAID_RPC_GRPC_STATUS_H_
