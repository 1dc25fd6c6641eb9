#include "retrieval/embedding_service.h"

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "braid/v1/embedding.grpc.pb.h"
#include "retrieval/embedding_batch.h"
#include "retrieval/work_slots.h"
#include "rpc/grpc_status.h"

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
  ASSIGN_OR_RETURN(const int64_t num_truncated,
                   embedder.EmbedAndCountCut(texts, {response.mutable_values()->mutable_data(),
                                                     static_cast<size_t>(num_values)}));
  response.set_num_truncated(static_cast<int32_t>(num_truncated));
  return response;
}

using Stream = grpc::ServerReaderWriter<v1::EmbedResponse, v1::EmbedRequest>;

// Writes the answers of a stream and, from its own thread, signs of life between them. An encoder
// may take minutes for a batch; signs of life let clients distinguish a busy server from an
// unreachable one.
class AnswerWriter {
 public:
  AnswerWriter(Stream* stream, std::chrono::milliseconds interval)
      : stream_(stream),
        interval_(interval),
        thread_([this](std::stop_token stop) { Run(stop); }) {}

  void Begin(int64_t batch) {
    const std::lock_guard lock(mutex_);
    batch_ = batch;
  }
  bool Write(const v1::EmbedResponse& answer) {
    const std::lock_guard lock(mutex_);
    batch_.reset();
    return stream_->Write(answer);
  }

 private:
  void Run(std::stop_token stop) {
    std::unique_lock lock(mutex_);
    while (!stop.stop_requested()) {
      stopped_.wait_for(lock, stop, interval_, [] { return false; });
      if (stop.stop_requested() || !batch_) continue;
      v1::EmbedResponse sign;
      sign.set_batch(*batch_);
      sign.set_working(true);
      stream_->Write(sign);
    }
  }

  Stream* const stream_;  // written to under mutex_
  const std::chrono::milliseconds interval_;
  std::mutex mutex_;
  std::condition_variable_any stopped_;
  std::optional<int64_t> batch_;  // being embedded; guarded by mutex_
  std::jthread thread_;           // declared last: joined before the members it uses are destroyed
};

class EmbeddingServiceImpl final : public v1::EmbeddingService::Service {
 public:
  EmbeddingServiceImpl(std::shared_ptr<const Embedder> embedder,
                       const EmbeddingServiceOptions& options)
      : embedder_(std::move(embedder)), options_(options), slots_(options.max_batches) {}

  grpc::Status Embed(grpc::ServerContext* context, Stream* stream) override {
    const int num_streams = ++num_streams_;
    const absl::Cleanup leave = [this] { --num_streams_; };  // also after an exception
    return ToGrpc(num_streams > options_.max_streams ? TooManyStreams()
                                                     : AnswerBatches(context, stream));
  }

 private:
  absl::Status TooManyStreams() const {
    return absl::ResourceExhaustedError(absl::StrCat("got more than ", options_.max_streams,
                                                     " concurrent streams; use another replica"));
  }

  absl::Status AnswerBatches(grpc::ServerContext* context, Stream* stream) {
    context->AddInitialMetadata(kEmbedderDimensionKey, std::to_string(embedder_->dimension()));
    context->AddInitialMetadata(kEmbedderFingerprintKey, embedder_->fingerprint());
    if (const int64_t texts = embedder_->preferred_batch_texts(); texts > 0) {
      context->AddInitialMetadata(kEmbedderBatchTextsKey, std::to_string(texts));
    }
    // At once: clients send no batch before they have the description.
    stream->SendInitialMetadata();
    AnswerWriter writer(stream, options_.sign_interval);
    v1::EmbedRequest request;
    while (stream->Read(&request)) {
      writer.Begin(request.batch());
      ASSIGN_OR_RETURN(const v1::EmbedResponse response, AnswerInTurn(context, request));
      if (!writer.Write(response)) return absl::CancelledError("the client disconnected");
    }
    return absl::OkStatus();
  }

  absl::StatusOr<v1::EmbedResponse> AnswerInTurn(grpc::ServerContext* context,
                                                 const v1::EmbedRequest& request) {
    // Released before the answer is written, so a client that does not read delays no others.
    ASSIGN_OR_RETURN(const WorkSlots::Slot slot, slots_.Take([&] {
      return context->IsCancelled() ? absl::CancelledError("the client disconnected")
                                    : absl::OkStatus();
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
