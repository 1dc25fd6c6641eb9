#include "rpc/storage_client.h"

#include "braid/v1/storage.grpc.pb.h"
#include "rpc/grpc_call.h"

namespace braid {

absl::StatusOr<v1::DeletionResponse> StorageClient::Delete(const v1::DeleteRequest& request) {
  return LongCall<v1::DeletionResponse>(*v1::StorageService::NewStub(channel_),
                                        &v1::StorageService::Stub::Delete, request);
}

absl::StatusOr<v1::DeletionResponse> StorageClient::CollectGarbage(
    const v1::CollectGarbageRequest& request) {
  return LongCall<v1::DeletionResponse>(*v1::StorageService::NewStub(channel_),
                                        &v1::StorageService::Stub::CollectGarbage, request);
}

}  // namespace braid
