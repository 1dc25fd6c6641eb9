#include "retrieval/grpc_embedding_stream.h"

#include <utility>

#include "retrieval/embedding_service.h"
#include "rpc/grpc_status.h"

namespace braid {

void EmbeddingEvents::Push(EmbeddingEvent event) {
  const std::lock_guard lock(mutex_);
  events_.push_back(std::move(event));
  pushed_.notify_one();
}

std::optional<EmbeddingEvent> EmbeddingEvents::Pop(std::chrono::milliseconds wait) {
  std::unique_lock lock(mutex_);
  if (!pushed_.wait_for(lock, wait, [&] { return !events_.empty(); })) return std::nullopt;
  EmbeddingEvent event = std::move(events_.front());
  events_.pop_front();
  return event;
}

EmbeddingStream::EmbeddingStream(v1::EmbeddingService::Stub* stub, int64_t number, bool patient,
                                 EmbeddingEvents* events)
    : number_(number), events_(events) {
  context_.set_wait_for_ready(patient);
  stub->async()->Embed(&context_, this);
  // Requests are written from outside of callbacks; the hold prevents OnDone meanwhile.
  AddHold();
  StartRead(&answer_);
  StartCall();
}

EmbeddingStream::~EmbeddingStream() {
  Cancel();
  std::unique_lock lock(mutex_);
  ended_.wait(lock, [&] { return done_; });
}

void EmbeddingStream::Send(v1::EmbedRequest request) {
  const std::lock_guard lock(mutex_);
  // The event of the end, which follows, makes the client send the batch again.
  if (closed_) return;
  requests_.push_back(std::move(request));
  if (requests_.size() == 1) StartWrite(&requests_.front());
}

void EmbeddingStream::Cancel() { context_.TryCancel(); }

void EmbeddingStream::Finish() {
  constexpr std::chrono::milliseconds kPatience{200};
  std::unique_lock lock(mutex_);
  if (closed_ || !requests_.empty()) return;
  StartWritesDone();
  ended_.wait_for(lock, kPatience, [&] { return done_; });
}

std::string EmbeddingStream::Metadata(const char* key) const {
  const auto& metadata = context_.GetServerInitialMetadata();
  const auto found = metadata.find(key);
  return found == metadata.end() ? "" : std::string(found->second.data(), found->second.length());
}

void EmbeddingStream::OnReadInitialMetadataDone(bool ok) {
  if (!ok) return;
  events_->Push({.kind = EmbeddingEvent::Kind::kReady,
                 .stream = number_,
                 .fingerprint = Metadata(kEmbedderFingerprintKey),
                 .dimension = Metadata(kEmbedderDimensionKey),
                 .batch_texts = Metadata(kEmbedderBatchTextsKey)});
}

void EmbeddingStream::OnWriteDone(bool ok) {
  const std::lock_guard lock(mutex_);
  requests_.pop_front();
  if (ok && !closed_ && !requests_.empty()) StartWrite(&requests_.front());
}

void EmbeddingStream::OnReadDone(bool ok) {
  if (ok) {
    events_->Push({.kind = EmbeddingEvent::Kind::kAnswer,
                   .stream = number_,
                   .answer = std::exchange(answer_, {})});
    StartRead(&answer_);
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    // Before the hold is removed, after which Send() must not start a write.
    closed_ = true;
  }
  RemoveHold();
}

void EmbeddingStream::OnDone(const grpc::Status& status) {
  events_->Push(
      {.kind = EmbeddingEvent::Kind::kEnded, .stream = number_, .status = FromGrpc(status)});
  // Last, and with the notification under the lock: the destructor may return, and ended_ be
  // destroyed, as soon as done_ is seen.
  const std::lock_guard lock(mutex_);
  done_ = true;
  ended_.notify_one();
}

}  // namespace braid
