// A stream to an embedding server on gRPC's callback interface. Everything that happens on it
// becomes an event in a queue shared by many streams, so one thread can serve all of them.
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
  int64_t stream;  // number of the stream
  // kReady: the description of the server; "" for absent metadata.
  std::string fingerprint = {};
  std::string dimension = {};
  std::string batch_texts = {};
  v1::EmbedResponse answer = {};  // kAnswer
  absl::Status status = {};       // kEnded, the last event of a stream
};

// The shared queue. Thread-safe.
class EmbeddingEvents {
 public:
  void Push(EmbeddingEvent event);
  // Returns the next event; nullopt if none arrives within `wait`.
  std::optional<EmbeddingEvent> Pop(std::chrono::milliseconds wait);

 private:
  std::mutex mutex_;
  std::condition_variable pushed_;
  std::deque<EmbeddingEvent> events_;  // guarded by mutex_
};

// One stream. Its events are pushed from threads of gRPC.
class EmbeddingStream final : private grpc::ClientBidiReactor<v1::EmbedRequest, v1::EmbedResponse> {
 public:
  // Connects and starts the stream. If `patient`, it waits for a server that does not answer
  // instead of ending. `events` must outlive this object.
  EmbeddingStream(v1::EmbeddingService::Stub* stub, int64_t number, bool patient,
                  EmbeddingEvents* events);
  // Cancels the call and waits for its end.
  ~EmbeddingStream() override;

  // Queues a request without blocking; thread-safe. Requests accumulate while the server accepts
  // none, so callers must bound the number of unanswered requests.
  void Send(v1::EmbedRequest request);
  void Cancel();
  // Ends a stream without unanswered requests in the way the server expects; waits 200 ms for that.
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
  bool closed_ = false;                    // no further operation may start
  bool done_ = false;
};

}  // namespace braid

#endif  // BRAID_RETRIEVAL_GRPC_EMBEDDING_STREAM_H_
