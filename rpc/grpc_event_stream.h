// Server streams of numbered events, for many more watchers than threads.
//
//   EventStreams<v1::JobEvent> streams([&](const std::string& id) { return OpenEvents(id); }, {});
//   grpc::ServerWriteReactor<v1::JobEvent>* WatchJob(grpc::CallbackServerContext* context,
//                                                    const v1::WatchJobRequest* request) {
//     return streams.Watch(context, request->id(), request->after_event());
//   }
//
// A stream is a cursor (the number of the newest event sent to its client) and at most one batch,
// of which one event is being written. The next event is written when the transport has accepted
// the previous one, so a client that never reads costs one batch and the HTTP/2 window, and a
// client that has read everything costs only its call.
//
// One thread reads for all streams. At every poll interval, or when notified, it asks each source
// with streams for its version, and visits only the streams whose source has changed. Streams wait
// in one queue per topic (source), and the topics take turns, so ten thousand watchers of one run
// do not delay a watcher of another.
//
// Threads: gRPC's threads call the callbacks of Stream, which write the rest of a batch, then set
// flags under mutex_ and queue the stream; thread_ makes all other decisions. The invariant that
// makes the cursor safe without a lock: while a write is in progress (`writing`) the cursor belongs
// to OnWriteDone, otherwise to thread_.
#ifndef BRAID_RPC_GRPC_EVENT_STREAM_H_
#define BRAID_RPC_GRPC_EVENT_STREAM_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "rpc/event_source.h"
#include "rpc/grpc_caller.h"
#include "rpc/grpc_status.h"
#include "rpc/principal_quota.h"

namespace braid {

struct EventStreamOptions {
  // Time between polls of the sources without notification.
  std::chrono::milliseconds poll_interval{200};
  // Maximum concurrent streams per principal; 0: no limit.
  int64_t max_per_principal = 0;
};

// Thread-safe. Must be destroyed after the server was shut down.
template <class Event>
class EventStreams {
 public:
  using Source = EventSource<Event>;
  // Opens the events of the job or run with this id; its error ends the stream.
  using Opener = std::function<absl::StatusOr<std::unique_ptr<Source>>(const std::string& id)>;

  EventStreams(Opener open, const EventStreamOptions& options)
      : open_(std::move(open)),
        poll_interval_(options.poll_interval),
        quota_("watches", options.max_per_principal,
               "end one, or ask for a higher --quota-watches"),
        thread_([this] { Loop(); }) {}
  ~EventStreams();

  // Streams the events after `number` until the source's last one. The stream ends with the
  // opener's error, INVALID_ARGUMENT for a negative number, RESOURCE_EXHAUSTED above the
  // principal's limit, or the error of a read.
  grpc::ServerWriteReactor<Event>* Watch(grpc::CallbackServerContext* context,
                                         const std::string& id, int64_t number);

  // Polls the sources now. Call it when a source may have changed.
  void Notify();

 private:
  using Batch = EventBatch<Event>;
  using Clock = std::chrono::steady_clock;
  class Stream;
  using StreamPtr = std::shared_ptr<Stream>;

  // A source and its streams.
  struct Topic {
    std::unique_ptr<Source> source;
    uint64_t version = 0;
    int64_t num_streams = 0;
    std::unordered_set<StreamPtr> idle;  // have received everything
    std::deque<StreamPtr> pending;       // wait to be advanced
    // The newest batch, shared by the streams with the same cursor.
    std::shared_ptr<const Batch> batch;
    int64_t batch_after = -1;
  };

  // Streams of a topic that are advanced before those of the next topic.
  static constexpr int kTurn = 16;

  // Called by streams from gRPC's threads.
  void Wrote(const StreamPtr& stream, bool ok, bool last);
  void Cancelled(const StreamPtr& stream);
  void Queue(const StreamPtr& stream);  // with mutex_ held

  // Called by thread_ only.
  void Loop();
  bool WaitForWork(std::vector<StreamPtr>* ready);
  void Arrive(const StreamPtr& stream);
  absl::Status Join(const StreamPtr& stream);
  void Poll();
  void GiveTurns();
  void Advance(Topic& topic, const StreamPtr& stream);
  absl::StatusOr<std::shared_ptr<const Batch>> Read(Topic& topic, int64_t after);
  void End(const StreamPtr& stream, const absl::Status& status);

  // Takes a place in the principal's quota for a stream after event `number`.
  absl::StatusOr<PrincipalQuota::Place> Admit(const std::string& principal, int64_t number);

  const Opener open_;
  const std::chrono::milliseconds poll_interval_;
  PrincipalQuota quota_;

  // Accessed by thread_ only.
  std::map<std::string, Topic> topics_;
  Clock::time_point next_poll_{};
  bool has_pending_ = false;

  std::mutex mutex_;  // guards the three members after wake_
  std::condition_variable wake_;
  std::vector<StreamPtr> ready_;
  bool notified_ = false;
  bool ending_ = false;
  std::thread thread_;  // declared last because it uses the other members
};

// One call. Owns itself (self_) until gRPC calls OnDone.
template <class Event>
class EventStreams<Event>::Stream final : public grpc::ServerWriteReactor<Event>,
                                          public std::enable_shared_from_this<Stream> {
 public:
  Stream(EventStreams* owner, std::string the_id, int64_t after)
      : id(std::move(the_id)), cursor(after), owner_(owner) {}

  void KeepAlive() { self_ = this->shared_from_this(); }

  // Starts to write a batch, which must not be empty.
  void Send(std::shared_ptr<const Batch> batch) {
    batch_ = std::move(batch);
    next_ = 0;
    this->StartWrite(&batch_->events[0]);
  }

  void OnWriteDone(bool ok) override {
    if (ok) {
      cursor = batch_->events[next_].number();
      if (++next_ < batch_->events.size()) return this->StartWrite(&batch_->events[next_]);
    }
    const bool last = batch_->last;
    batch_.reset();
    owner_->Wrote(this->shared_from_this(), ok, last);
  }
  void OnCancel() override { owner_->Cancelled(this->shared_from_this()); }
  // Moves self_ out first, because the last reference destroys this object with all its members.
  void OnDone() override { std::exchange(self_, nullptr).reset(); }

  const std::string id;
  // Held until the stream ends.
  PrincipalQuota::Place place;
  // Accessed by OnWriteDone while a write is in progress, otherwise by thread_.
  int64_t cursor;
  // Accessed by thread_ only.
  Topic* topic = nullptr;
  bool ended = false;
  // Guarded by the owner's mutex.
  bool queued = false;
  bool writing = false;
  bool gone = false;      // the client disconnected
  bool complete = false;  // the last event was written

 private:
  EventStreams* const owner_;
  StreamPtr self_;
  std::shared_ptr<const Batch> batch_;
  size_t next_ = 0;
};

template <class Event>
EventStreams<Event>::~EventStreams() {
  {
    std::lock_guard lock(mutex_);
    ending_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

template <class Event>
grpc::ServerWriteReactor<Event>* EventStreams<Event>::Watch(grpc::CallbackServerContext* context,
                                                            const std::string& id, int64_t number) {
  // Leaves room for sources to add one without overflow.
  const int64_t after = std::min(number, std::numeric_limits<int64_t>::max() - 1);
  const auto stream = std::make_shared<Stream>(this, id, after);
  stream->KeepAlive();
  absl::StatusOr<PrincipalQuota::Place> place = Admit(PrincipalOf(*context), number);
  if (!place.ok()) {
    // OnCancel may still queue the stream; Arrive() ignores it because of this.
    stream->ended = true;
    stream->Finish(ToGrpc(place.status()));
    return stream.get();
  }
  stream->place = *std::move(place);
  // Lets clients detect that the watch has started before the first event occurs.
  stream->StartSendInitialMetadata();
  std::lock_guard lock(mutex_);
  Queue(stream);
  return stream.get();
}

template <class Event>
absl::StatusOr<PrincipalQuota::Place> EventStreams<Event>::Admit(const std::string& principal,
                                                                 int64_t number) {
  if (number < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("after_event: got ", number, ", expected 0 or more"));
  }
  return quota_.Take(principal);
}

template <class Event>
void EventStreams<Event>::Notify() {
  {
    std::lock_guard lock(mutex_);
    notified_ = true;
  }
  wake_.notify_one();
}

template <class Event>
void EventStreams<Event>::Queue(const StreamPtr& stream) {
  if (std::exchange(stream->queued, true)) return;
  ready_.push_back(stream);
  wake_.notify_one();
}

template <class Event>
void EventStreams<Event>::Wrote(const StreamPtr& stream, bool ok, bool last) {
  std::lock_guard lock(mutex_);
  stream->writing = false;
  stream->gone |= !ok;
  stream->complete |= ok && last;
  Queue(stream);
}

template <class Event>
void EventStreams<Event>::Cancelled(const StreamPtr& stream) {
  std::lock_guard lock(mutex_);
  stream->gone = true;
  Queue(stream);
}

template <class Event>
void EventStreams<Event>::Loop() {
  std::vector<StreamPtr> ready;
  while (WaitForWork(&ready)) {
    for (const StreamPtr& stream : ready) Arrive(stream);
    ready.clear();
    if (Clock::now() >= next_poll_) Poll();
    GiveTurns();
  }
}

// Blocks until there is something to do; returns false when this object is being destroyed.
template <class Event>
bool EventStreams<Event>::WaitForWork(std::vector<StreamPtr>* ready) {
  const auto has_work = [this] { return ending_ || notified_ || !ready_.empty(); };
  std::unique_lock lock(mutex_);
  if (!has_pending_) {
    if (topics_.empty()) {
      wake_.wait(lock, has_work);
    } else {
      wake_.wait_until(lock, next_poll_, has_work);
    }
  }
  if (std::exchange(notified_, false)) next_poll_ = {};
  ready->swap(ready_);
  for (const StreamPtr& stream : *ready) stream->queued = false;
  return !ending_;
}

// Handles a stream that is new, has written a batch, or has lost its client.
template <class Event>
void EventStreams<Event>::Arrive(const StreamPtr& stream) {
  bool gone = false, complete = false;
  {
    std::lock_guard lock(mutex_);
    if (stream->ended || stream->writing) return;
    gone = stream->gone;
    complete = stream->complete;
  }
  if (gone) return End(stream, absl::CancelledError("the client disconnected"));
  if (complete) return End(stream, absl::OkStatus());
  if (const absl::Status joined = Join(stream); !joined.ok()) return End(stream, joined);
  stream->topic->pending.push_back(stream);
}

template <class Event>
absl::Status EventStreams<Event>::Join(const StreamPtr& stream) {
  if (stream->topic != nullptr) return absl::OkStatus();
  auto found = topics_.find(stream->id);
  if (found == topics_.end()) {
    absl::StatusOr<std::unique_ptr<Source>> source = open_(stream->id);
    if (!source.ok()) return source.status();
    found = topics_.try_emplace(stream->id).first;
    found->second.source = *std::move(source);
    found->second.version = found->second.source->Version();
  }
  stream->topic = &found->second;
  ++stream->topic->num_streams;
  // The batch shared by the other streams is stale if the source has changed since.
  if (found->second.source->Version() != found->second.version) found->second.batch.reset();
  return absl::OkStatus();
}

template <class Event>
void EventStreams<Event>::Poll() {
  // Not done in End(), which GiveTurns() calls while it iterates over topics_.
  std::erase_if(topics_, [](const auto& item) { return item.second.num_streams == 0; });
  for (auto& [id, topic] : topics_) {
    const uint64_t version = topic.source->Version();
    if (version == topic.version) continue;
    topic.version = version;
    topic.batch.reset();
    topic.pending.insert(topic.pending.end(), topic.idle.begin(), topic.idle.end());
    topic.idle.clear();
  }
  next_poll_ = Clock::now() + poll_interval_;
}

template <class Event>
void EventStreams<Event>::GiveTurns() {
  has_pending_ = false;
  for (auto& [id, topic] : topics_) {
    for (int turn = 0; turn < kTurn && !topic.pending.empty(); ++turn) {
      const StreamPtr stream = std::move(topic.pending.front());
      topic.pending.pop_front();
      if (!stream->ended) Advance(topic, stream);
    }
    has_pending_ |= !topic.pending.empty();
  }
}

template <class Event>
void EventStreams<Event>::Advance(Topic& topic, const StreamPtr& stream) {
  const absl::StatusOr<std::shared_ptr<const Batch>> batch = Read(topic, stream->cursor);
  if (!batch.ok()) return End(stream, batch.status());
  if ((*batch)->events.empty()) {
    if ((*batch)->last) return End(stream, absl::OkStatus());
    topic.idle.insert(stream);
    return;
  }
  {
    std::lock_guard lock(mutex_);
    // Before the write starts: Wrote() may be called at once on another thread.
    stream->writing = true;
  }
  stream->Send(*batch);
}

template <class Event>
auto EventStreams<Event>::Read(Topic& topic, int64_t after)
    -> absl::StatusOr<std::shared_ptr<const Batch>> {
  if (topic.batch == nullptr || topic.batch_after != after) {
    absl::StatusOr<Batch> batch = topic.source->After(after);
    if (!batch.ok()) return batch.status();
    topic.batch = std::make_shared<const Batch>(*std::move(batch));
    topic.batch_after = after;
  }
  return topic.batch;
}

template <class Event>
void EventStreams<Event>::End(const StreamPtr& stream, const absl::Status& status) {
  stream->ended = true;
  if (stream->topic != nullptr) {
    stream->topic->idle.erase(stream);
    --stream->topic->num_streams;
  }
  // Before Finish(): a client that watches again at once must find its place free.
  stream->place.reset();
  stream->Finish(ToGrpc(status));
}

}  // namespace braid

#endif  // BRAID_RPC_GRPC_EVENT_STREAM_H_
