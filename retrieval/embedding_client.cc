#include "retrieval/embedding_client.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/host_port.h"
#include "base/status_macros.h"
#include "retrieval/grpc_channel.h"
#include "retrieval/grpc_embedding_replicas.h"

namespace braid {

EmbeddingClient::EmbeddingClient(std::unique_ptr<EmbeddingReplicas> replicas)
    : replicas_(std::move(replicas)) {}
EmbeddingClient::~EmbeddingClient() = default;

absl::StatusOr<std::unique_ptr<EmbeddingClient>> EmbeddingClient::Connect(
    const EmbeddingClientOptions& options) {
  if (options.addresses.empty()) {
    return absl::InvalidArgumentError(
        "got no address of an embedding server, expected at least one HOST:PORT");
  }
  for (const std::string& address : options.addresses) {
    RETURN_IF_ERROR(CheckHostPort("embedding server", address));
  }
  auto replicas = std::make_unique<EmbeddingReplicas>(options);
  RETURN_IF_ERROR(replicas->Learn());
  return std::unique_ptr<EmbeddingClient>(new EmbeddingClient(std::move(replicas)));
}

int32_t EmbeddingClient::dimension() const { return replicas_->dimension(); }

std::string EmbeddingClient::fingerprint() const { return replicas_->fingerprint(); }

int64_t EmbeddingClient::preferred_batch_texts() const {
  return replicas_->preferred_batch_texts();
}

int64_t EmbeddingClient::group_texts() const { return replicas_->group_texts(); }

absl::Status EmbeddingClient::Embed(std::span<const std::string_view> texts,
                                    std::span<float> vectors) const {
  return EmbedAndCountCut(texts, vectors).status();
}

absl::StatusOr<int64_t> EmbeddingClient::EmbedAndCountCut(std::span<const std::string_view> texts,
                                                          std::span<float> vectors) const {
  const size_t expected = texts.size() * static_cast<size_t>(dimension());
  if (vectors.size() != expected) {
    return absl::InvalidArgumentError(absl::StrCat("embedding client: got an output of ",
                                                   vectors.size(), " values, expected ",
                                                   texts.size(), " x ", dimension()));
  }
  return replicas_->Embed(texts, vectors);
}

}  // namespace braid
