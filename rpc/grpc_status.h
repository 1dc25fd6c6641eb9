// Conversion between absl::Status and grpc::Status. Codes have the same numbers in both; messages
// are kept.
#ifndef BRAID_RPC_GRPC_STATUS_H_
#define BRAID_RPC_GRPC_STATUS_H_

#include <grpcpp/support/status.h>

#include "absl/status/status.h"

namespace braid {

grpc::Status ToGrpc(const absl::Status& status);
absl::Status FromGrpc(const grpc::Status& status);

}  // namespace braid

#endif  // BRAID_RPC_GRPC_STATUS_H_
