// An Embedder whose work is done by one or more EmbeddingService servers.
//
//   ASSIGN_OR_RETURN(std::unique_ptr<EmbeddingClient> embedder,
//                    EmbeddingClient::Connect({.addresses = {"10.0.0.1:7200", "10.0.0.2:7200"}}));
//   RETURN_IF_ERROR(embedder->Embed(texts, vectors));
#ifndef BRAID_RETRIEVAL_EMBEDDING_CLIENT_H_
#define BRAID_RETRIEVAL_EMBEDDING_CLIENT_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "retrieval/embedder.h"

namespace grpc {
class ChannelCredentials;
}

namespace braid {

struct EmbeddingClientOptions {
  // host:port of each server; all must serve the same embedder. A single host name
  // may stand for several servers (all its DNS addresses are used).
  std::vector<std::string> addresses = {};
  // Null: plain text.
  std::shared_ptr<grpc::ChannelCredentials> credentials = nullptr;
  // For one batch, each attempt anew.
  std::chrono::milliseconds deadline{60'000};
  // Attempts for one batch; only UNAVAILABLE is tried again, after 50 ms, 100 ms, ...
  // (1 s at most), on the next server.
  int max_attempts = 6;
  // Batches in flight; 0 means two for each address.
  int max_parallel = 0;
  // Bytes of one request, texts and framing. gRPC refuses more than 4 MiB.
  int64_t max_batch_bytes = int64_t{4'000'000};
};

// Batches are spread over the servers by gRPC's round robin, so the same texts give
// the same vectors wherever they are computed.
class EmbeddingClient final : public Embedder {
 public:
  // Asks a server for its dimension and fingerprint. INVALID_ARGUMENT for an
  // address that is not host:port, UNAVAILABLE when no server answers.
  static absl::StatusOr<std::unique_ptr<EmbeddingClient>> Connect(
      const EmbeddingClientOptions& options);
  ~EmbeddingClient() override;

  int32_t dimension() const override { return dimension_; }
  // Errors are those of the server, with the addresses in front;
  // RESOURCE_EXHAUSTED for a text larger than a batch; FAILED_PRECONDITION when
  // servers disagree about the embedder; DATA_LOSS for a malformed answer.
  absl::Status Embed(std::span<const std::string_view> texts,
                     std::span<float> vectors) const override;
  // That of the server's embedder: vectors are the same as from it.
  std::string fingerprint() const override { return fingerprint_; }

 private:
  struct Connection;
  explicit EmbeddingClient(std::unique_ptr<Connection> connection);

  absl::Status LearnEmbedder();
  absl::Status EmbedBatch(std::span<const std::string_view> texts, std::span<float> vectors) const;
  absl::Status EmbedOnce(std::span<const std::string_view> texts, std::span<float> vectors) const;

  std::unique_ptr<Connection> connection_;
  int32_t dimension_ = 0;
  std::string fingerprint_;
};

}  // namespace braid

#endif  // BRAID_RETRIEVAL_EMBEDDING_CLIENT_H_
