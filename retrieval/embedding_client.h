// An Embedder whose work is done by one or more replicas of an EmbeddingService.
//
//   ASSIGN_OR_RETURN(std::unique_ptr<EmbeddingClient> embedder,
//                    EmbeddingClient::Connect({.addresses = {"10.0.0.1:7077", "10.0.0.2:7077"}}));
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
#include "retrieval/parallel_for.h"

namespace braid {

struct EmbeddingClientOptions {
  // HOST:PORT of each replica; all must serve the same embedder.
  std::vector<std::string> addresses = {};
  // Of silence: between a batch and its answer or a sign that it is worked on (a server sends
  // one every 5 s); and before a replica says what it is.
  std::chrono::milliseconds deadline{60'000};
  std::chrono::milliseconds connect_deadline{5'000};
  // How long to wait while no replica is there.
  std::chrono::milliseconds give_up_after{300'000};
  // Times that a batch is sent to a replica which goes before it answers.
  int max_attempts = 6;
  // Batches that a replica has not answered: one that it works on, one on the way.
  int batches_in_flight = 2;
  // Bytes of text in a batch for replicas that do not say how many texts they want in one; a
  // longer text is sent alone.
  int64_t batch_bytes = int64_t{256} << 10;
  // Asked several times a second while waiting; what is not OK ends the call.
  StopCheck check = nullptr;
};

// Each replica has one stream, and batches go to whichever has fewest unanswered. When a
// replica goes, its unanswered batches go to the others; it is tried again after 50 ms, 100
// ms, ... 1.6 s, and used as soon as it is back. Which replica answers decides neither the
// order nor the bytes of the vectors. Thread-safe; calls take turns.
class EmbeddingClient final : public Embedder {
 public:
  // Asks all replicas what they are; those that are not there are looked for later.
  // INVALID_ARGUMENT for an address that is not HOST:PORT, UNAVAILABLE when no replica comes
  // within give_up_after, FAILED_PRECONDITION, with their addresses, when two disagree.
  static absl::StatusOr<std::unique_ptr<EmbeddingClient>> Connect(
      const EmbeddingClientOptions& options);
  ~EmbeddingClient() override;

  int32_t dimension() const override;
  // UNAVAILABLE, with what is wrong at each address, once there was no replica for
  // give_up_after; a replica that comes back as another embedder counts as none.
  // RESOURCE_EXHAUSTED for a text larger than a message; DATA_LOSS for a malformed answer;
  // otherwise the errors of the replica, with its address, and those of options.check.
  absl::Status Embed(std::span<const std::string_view> texts,
                     std::span<float> vectors) const override;
  absl::StatusOr<int64_t> EmbedAndCountCut(std::span<const std::string_view> texts,
                                           std::span<float> vectors) const override;
  // Batches as the replicas want them, enough for all of them to be busy.
  int64_t preferred_batch_texts() const override;
  // That of the replicas: vectors are the same as from their embedder.
  std::string fingerprint() const override;

 private:
  class Replicas;
  explicit EmbeddingClient(std::unique_ptr<Replicas> replicas);

  const std::unique_ptr<Replicas> replicas_;
};

}  // namespace braid

#endif  // BRAID_RETRIEVAL_EMBEDDING_CLIENT_H_
