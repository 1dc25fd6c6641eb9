// An Embedder that sends texts to one or more replicas of an EmbeddingService.
//
//   ASSIGN_OR_RETURN(std::unique_ptr<EmbeddingClient> embedder,
//                    EmbeddingClient::Connect({.addresses = {"10.0.0.1:7077", "10.0.0.2:7077"}}));
//   RETURN_IF_ERROR(embedder->Embed(texts, vectors));
#ifndef BRAID_RETRIEVAL_EMBEDDING_CLIENT_H_
#define BRAID_RETRIEVAL_EMBEDDING_CLIENT_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "retrieval/embedder.h"
#include "retrieval/parallel_for.h"

namespace braid {

class EmbeddingReplicas;

struct EmbeddingClientOptions {
  // HOST:PORT of each replica; all must serve the same embedder.
  std::vector<std::string> addresses = {};
  // Maximum silence: between a batch and its answer or a sign that the server works on it (sent
  // every 5 s), and before a replica describes itself.
  std::chrono::milliseconds deadline{60'000};
  std::chrono::milliseconds connect_deadline{5'000};
  // Maximum wait while no replica is available.
  std::chrono::milliseconds give_up_after{300'000};
  // Maximum attempts to send a batch to replicas that disconnect before they answer.
  int max_attempts = 6;
  // Unanswered batches per replica: one that is embedded, one in transit.
  int batches_in_flight = 2;
  // Bytes of text in a batch for replicas that do not announce a number of texts; a longer text is
  // sent alone.
  int64_t batch_bytes = int64_t{256} << 10;
  // Called several times a second while waiting; its first error ends the call.
  StopCheck check = nullptr;
  // Called with the replicas that do not answer, why, and how long the call waits for them, when
  // that changes; with "" when all answer or the call ends.
  std::function<void(const std::string&)> on_waiting = nullptr;
};

// Each replica has one stream, and a batch goes to the replica with the fewest unanswered batches.
// When a replica disconnects, its unanswered batches go to the others; it is retried after 50 ms,
// 100 ms, ... 1.6 s and used again as soon as it is available. The order and the bytes of the
// vectors do not depend on which replica answers. Thread-safe; concurrent calls are serialized.
class EmbeddingClient final : public Embedder {
 public:
  // Asks all replicas for their description; unavailable ones are retried later. INVALID_ARGUMENT
  // for an address that is not HOST:PORT, UNAVAILABLE if no replica is available within
  // give_up_after, FAILED_PRECONDITION, with the addresses, if two replicas disagree.
  static absl::StatusOr<std::unique_ptr<EmbeddingClient>> Connect(
      const EmbeddingClientOptions& options);
  ~EmbeddingClient() override;

  int32_t dimension() const override;
  // Errors: UNAVAILABLE, with the error of each address, after no replica was available for
  // give_up_after (a replica that comes back as another embedder counts as unavailable);
  // INVALID_ARGUMENT for a text larger than a message; INTERNAL for a malformed answer;
  // FAILED_PRECONDITION when all replicas answer so, before which the others do the work;
  // otherwise the errors of the replica, with its address, and those of options.check.
  absl::Status Embed(std::span<const std::string_view> texts,
                     std::span<float> vectors) const override;
  absl::StatusOr<int64_t> EmbedAndCountCut(std::span<const std::string_view> texts,
                                           std::span<float> vectors) const override;
  // Returns batches of the size that the replicas prefer, enough to keep all of them busy.
  int64_t preferred_batch_texts() const override;
  // Returns the texts of a batch, which do not depend on the number of replicas.
  int64_t group_texts() const override;
  // Returns the fingerprint of the replicas: vectors equal those of their embedder.
  std::string fingerprint() const override;

 private:
  explicit EmbeddingClient(std::unique_ptr<EmbeddingReplicas> replicas);

  const std::unique_ptr<EmbeddingReplicas> replicas_;
};

}  // namespace braid

#endif  // BRAID_RETRIEVAL_EMBEDDING_CLIENT_H_
