#include "retrieval/embedding_service.h"

#include <grpcpp/grpcpp.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "braid/v1/embedding.grpc.pb.h"
#include "formats/check.h"
#include "formats/status_macros.h"
#include "proto/grpc_status.h"

namespace braid {
namespace {

absl::StatusOr<v1::EmbedResponse> EmbedBatch(const Embedder& embedder,
                                             const v1::EmbedRequest& request) {
  const std::vector<std::string_view> texts(request.texts().begin(), request.texts().end());
  v1::EmbedResponse response;
  response.set_batch(request.batch());
  response.set_dimension(embedder.dimension());
  const auto num_values = static_cast<int64_t>(texts.size()) * embedder.dimension();
  // A protobuf message holds at most 2 GiB.
  constexpr int64_t kMaxValues = (int64_t{1} << 31) / 4 - 1024;
  if (num_values > kMaxValues) {
    return absl::ResourceExhaustedError("embed: too many texts in a batch for one answer; send " +
                                        std::to_string(kMaxValues / embedder.dimension()) +
                                        " at most");
  }
  response.mutable_values()->Resize(static_cast<int>(num_values), 0);
  RETURN_IF_ERROR(embedder.Embed(
      texts, {response.mutable_values()->mutable_data(), static_cast<size_t>(num_values)}));
  return response;
}

class EmbeddingServiceImpl final : public v1::EmbeddingService::Service {
 public:
  explicit EmbeddingServiceImpl(std::shared_ptr<const Embedder> embedder)
      : embedder_(std::move(embedder)) {}

  grpc::Status Embed(
      grpc::ServerContext* context,
      grpc::ServerReaderWriter<v1::EmbedResponse, v1::EmbedRequest>* stream) override {
    context->AddInitialMetadata(kEmbedderDimensionKey, std::to_string(embedder_->dimension()));
    context->AddInitialMetadata(kEmbedderFingerprintKey, embedder_->fingerprint());
    v1::EmbedRequest request;
    while (stream->Read(&request)) {
      const absl::StatusOr<v1::EmbedResponse> response = EmbedBatch(*embedder_, request);
      if (!response.ok()) return ToGrpc(response.status());
      if (!stream->Write(*response)) return grpc::Status::CANCELLED;
    }
    return grpc::Status::OK;
  }

 private:
  std::shared_ptr<const Embedder> embedder_;
};

}  // namespace

std::unique_ptr<grpc::Service> MakeEmbeddingService(std::shared_ptr<const Embedder> embedder) {
  BRAID_CHECK(embedder != nullptr);
  return std::make_unique<EmbeddingServiceImpl>(std::move(embedder));
}

}  // namespace braid
