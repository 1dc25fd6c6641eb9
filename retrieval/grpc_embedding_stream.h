// One stream to an embedding server, on gRPC's callback interface: whatever happens on it
// becomes an event in a queue that many streams share, so that one thread looks after all.
#ifndef BRAID_RETRIEVAL_GRPC_EMBEDDING_STREAM_H_
#define BRAID_RETRIEVAL_GRPC_EMBEDDING_STREAM_H_

#include <grpcpp/client_context.h>
#include <grpcpp/support/client_callback.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "braid/v1/embedding.grpc.pb.h"

namespace braid {

struct EmbeddingEvent {
  enum class Kind { kReady, kAnswer, kEnded };

  Kind kind;
  int64_t stream;  // its number
  // kReady: what the server says it is; "" where it says nothing.
  std::string fingerprint = {};
  std::string dimension = {};
  std::string batch_texts = {};
  v1::EmbedResponse answer = {};  // kAnswer
  absl::Status status = {};       // kEnded, the last event of a stream
};

// Thread-safe.
class EmbeddingEvents {
 public:
  void Push(EmbeddingEvent event);
  // The next one; nullopt when none comes within `wait`.
  std::optional<EmbeddingEvent> Pop(std::chrono::milliseconds wait);

 private:
  std::mutex mutex_;
  std::condition_variable pushed_;
  std::deque<EmbeddingEvent> events_;  // guarded by mutex_
};

class EmbeddingStream final : private grpc::ClientBidiReactor<v1::EmbedRequest, v1::EmbedResponse> {
 public:
  // Connects and begins; `patient`: waits for a server that does not answer, instead of
  // ending. `events` outlives this.
  EmbeddingStream(v1::EmbeddingService::Stub* stub, int64_t number, bool patient,
                  EmbeddingEvents* events);
  // Cancels and waits for the end.
  ~EmbeddingStream() override;

  // Thread-safe, and never blocks. Requests wait here while the server takes none, so
  // callers bound how many they have not got answers to.
  void Send(v1::EmbedRequest request);
  void Cancel();
  // Ends a stream on which nothing is unanswered as the server expects it; waits 200 ms for that.
  void Finish();

 private:
  void OnReadInitialMetadataDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnReadDone(bool ok) override;
  void OnDone(const grpc::Status& status) override;
  std::string Metadata(const char* key) const;

  const int64_t number_;
  EmbeddingEvents* const events_;
  grpc::ClientContext context_;
  v1::EmbedResponse answer_;  // being read
  std::mutex mutex_;
  std::condition_variable ended_;
  // Guarded by mutex_:
  std::deque<v1::EmbedRequest> requests_;  // the first is being written
  bool closed_ = false;                    // no operation may begin any more
  bool done_ = false;
};

}  // namespace braid

#endif  // BRAID_RETRIEVAL_GRPC_EMBEDDING_STREAM_H_
