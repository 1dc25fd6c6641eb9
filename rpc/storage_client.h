// A blocking client of StorageService.
#ifndef BRAID_RPC_STORAGE_CLIENT_H_
#define BRAID_RPC_STORAGE_CLIENT_H_

#include <memory>

#include "absl/status/statusor.h"
#include "braid/v1/storage.pb.h"

namespace grpc {
class Channel;
}

namespace braid {

// Thread-safe. Calls return the errors of the service and of the connection.
class StorageClient {
 public:
  explicit StorageClient(std::shared_ptr<grpc::Channel> channel) : channel_(std::move(channel)) {}

  absl::StatusOr<v1::DeletionResponse> Delete(const v1::DeleteRequest& request);
  absl::StatusOr<v1::DeletionResponse> CollectGarbage(const v1::CollectGarbageRequest& request);

 private:
  std::shared_ptr<grpc::Channel> channel_;
};

}  // namespace braid

#endif  // BRAID_RPC_STORAGE_CLIENT_H_
