#include "retrieval/embedding_service.h"

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "braid/v1/embedding.grpc.pb.h"
#include "formats/check.h"
#include "formats/status_macros.h"
#include "proto/grpc_status.h"
#include "retrieval/embedding_batch.h"
#include "retrieval/work_slots.h"

namespace braid {
namespace {

absl::StatusOr<v1::EmbedResponse> EmbedBatch(const Embedder& embedder,
                                             const v1::EmbedRequest& request) {
  const std::vector<std::string_view> texts(request.texts().begin(), request.texts().end());
  const int64_t most = MaxTextsOfBatch(embedder.dimension());
  const auto num_texts = static_cast<int64_t>(texts.size());
  if (num_texts > most) {
    return absl::InvalidArgumentError(absl::StrCat("batch ", request.batch(), ": got ", num_texts,
                                                   " texts, expected at most ", most, " of ",
                                                   embedder.dimension(), " dimensions"));
  }
  v1::EmbedResponse response;
  response.set_batch(request.batch());
  response.set_dimension(embedder.dimension());
  const int64_t num_values = num_texts * embedder.dimension();
  response.mutable_values()->Resize(static_cast<int>(num_values), 0);
  RETURN_IF_ERROR(embedder.Embed(
      texts, {response.mutable_values()->mutable_data(), static_cast<size_t>(num_values)}));
  return response;
}

class EmbeddingServiceImpl final : public v1::EmbeddingService::Service {
 public:
  using Stream = grpc::ServerReaderWriter<v1::EmbedResponse, v1::EmbedRequest>;

  EmbeddingServiceImpl(std::shared_ptr<const Embedder> embedder,
                       const EmbeddingServiceOptions& options)
      : embedder_(std::move(embedder)), options_(options), slots_(options.max_batches) {}

  grpc::Status Embed(grpc::ServerContext* context, Stream* stream) override {
    const int num_streams = ++num_streams_;
    const absl::Status status =
        num_streams > options_.max_streams ? TooManyStreams() : AnswerBatches(context, stream);
    --num_streams_;
    return ToGrpc(status);
  }

 private:
  absl::Status TooManyStreams() const {
    return absl::ResourceExhaustedError(absl::StrCat("got more than the ", options_.max_streams,
                                                     " streams expected; try another replica"));
  }

  absl::Status AnswerBatches(grpc::ServerContext* context, Stream* stream) {
    context->AddInitialMetadata(kEmbedderDimensionKey, std::to_string(embedder_->dimension()));
    context->AddInitialMetadata(kEmbedderFingerprintKey, embedder_->fingerprint());
    stream->SendInitialMetadata();
    v1::EmbedRequest request;
    while (stream->Read(&request)) {
      ASSIGN_OR_RETURN(const v1::EmbedResponse response, AnswerInTurn(context, request));
      if (!stream->Write(response)) return absl::CancelledError("the client is gone");
    }
    return absl::OkStatus();
  }

  absl::StatusOr<v1::EmbedResponse> AnswerInTurn(grpc::ServerContext* context,
                                                 const v1::EmbedRequest& request) {
    ASSIGN_OR_RETURN(const WorkSlots::Slot slot, slots_.Take([&] {
      return context->IsCancelled() ? absl::CancelledError("the client is gone") : absl::OkStatus();
    }));
    return EmbedBatch(*embedder_, request);
  }

  const std::shared_ptr<const Embedder> embedder_;
  const EmbeddingServiceOptions options_;
  WorkSlots slots_;
  std::atomic<int> num_streams_{0};
};

}  // namespace

std::unique_ptr<grpc::Service> MakeEmbeddingService(std::shared_ptr<const Embedder> embedder,
                                                    const EmbeddingServiceOptions& options) {
  BRAID_CHECK(embedder != nullptr);
  return std::make_unique<EmbeddingServiceImpl>(std::move(embedder), options);
}

}  // namespace braid
