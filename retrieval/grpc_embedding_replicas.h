// The event loop behind EmbeddingClient: shares the batches of a call among the replicas of an
// EmbeddingService, over one stream each.
#ifndef BRAID_RETRIEVAL_GRPC_EMBEDDING_REPLICAS_H_
#define BRAID_RETRIEVAL_GRPC_EMBEDDING_REPLICAS_H_

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "braid/v1/embedding.grpc.pb.h"
#include "retrieval/embedding_batch.h"
#include "retrieval/embedding_client.h"
#include "retrieval/grpc_embedding_stream.h"

namespace braid {

// The replicas and their state. The thread that calls Learn or Embed processes all events of the
// streams, so only one thread at a time accesses the members, guarded by mutex_.
class EmbeddingReplicas {
 public:
  // Requires: every address is HOST:PORT (CheckHostPort).
  explicit EmbeddingReplicas(const EmbeddingClientOptions& options);
  ~EmbeddingReplicas();

  // Asks all replicas for their description. UNAVAILABLE if no replica is available within
  // give_up_after, FAILED_PRECONDITION, with the addresses, if two replicas disagree.
  absl::Status Learn();
  // Writes the vectors of the texts, one after the other; returns how many texts were truncated.
  // Requires Learn() and space for one vector per text.
  absl::StatusOr<int64_t> Embed(std::span<const std::string_view> texts, std::span<float> vectors);

  int64_t preferred_batch_texts() const;
  int64_t group_texts() const { return batch_texts_; }
  int32_t dimension() const { return dimension_; }
  const std::string& fingerprint() const { return fingerprint_; }

 private:
  using Clock = std::chrono::steady_clock;

  struct Replica {
    std::string address;
    std::shared_ptr<grpc::Channel> channel;
    std::unique_ptr<v1::EmbeddingService::Stub> stub;

    std::unique_ptr<EmbeddingStream> stream;  // null while disconnected
    int64_t stream_number = 0;
    bool ready = false;               // has sent its description
    bool cancelled = false;           // by this client, because of `problem`
    std::deque<size_t> unanswered;    // batches, in the order sent
    Clock::time_point waiting_since;  // for the answer to the first of them, or for the description
    int num_failures = 0;             // consecutive
    Clock::time_point retry_at;
    absl::Status problem;
    bool refuses = false;  // has answered FAILED_PRECONDITION; left out until the call ends

    // Returns the error with the address of the replica.
    absl::Status Locate(const absl::Status& status) const;
  };

  // The batches of one call.
  struct Work {
    std::span<const std::string_view> texts;
    std::span<float> vectors;
    std::vector<EmbeddingBatch> batches;
    std::deque<size_t> pending = {};  // to be sent, or sent again
    std::vector<int> attempts = {};   // number of times each batch was sent
    size_t num_answered = 0;
    int64_t num_truncated = 0;
  };

  // Processes events until `done`; connects replicas and sends pending batches meanwhile.
  template <class Done>
  absl::Status Run(Done done);
  void Connect();
  void HandOut();
  void Send(Replica* replica, size_t batch);
  absl::Status Handle(const EmbeddingEvent& event);
  absl::Status TakeReady(const EmbeddingEvent& event, Replica* replica);
  absl::Status TakeAnswer(const v1::EmbedResponse& answer, Replica* replica);
  absl::Status TakeEnd(const absl::Status& status, Replica* replica);
  void CheckDeadlines();
  absl::Status CheckGivenUp();
  // Reports the replicas that do not answer, if that has changed.
  void ReportWaiting(const std::string& waiting);
  std::string DescribeWaiting() const;
  void CloseStreams();
  Replica* FindReplica(int64_t stream);
  Replica* LeastBusy();

  const EmbeddingClientOptions options_;
  std::mutex mutex_;  // one call at a time
  EmbeddingEvents events_;
  std::vector<Replica> replicas_;
  int64_t num_streams_ = 0;
  Work work_;
  Clock::time_point alone_since_;  // no replica has been ready since then
  // The description of the first replica that answered, whose address is `reference_`.
  int32_t dimension_ = 0;
  int64_t batch_texts_ = 0;  // texts that it prefers in a batch; 0: no preference
  std::string fingerprint_, reference_;
  bool learning_ = false;
  std::string waiting_;  // as last reported
};

}  // namespace braid

#endif  // BRAID_RETRIEVAL_GRPC_EMBEDDING_REPLICAS_H_
