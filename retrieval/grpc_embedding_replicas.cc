#include "retrieval/grpc_embedding_replicas.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "retrieval/grpc_channel.h"
#include "retrieval/retry_delay.h"
#include "rpc/connection_error.h"

namespace braid {
namespace {

using std::chrono::milliseconds;

// Returns whether an error may be temporary or specific to a replica, so the batch is sent again.
bool IsTransientEmbeddingError(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) ||
         absl::IsCancelled(status) || absl::IsResourceExhausted(status) || status.ok();
}

}  // namespace

absl::Status EmbeddingReplicas::Replica::Locate(const absl::Status& status) const {
  return absl::Status(status.code(), absl::StrCat("embedding server ", address, ": ",
                                                  ExplainRefusal(status).message()));
}

EmbeddingReplicas::EmbeddingReplicas(const EmbeddingClientOptions& options) : options_(options) {
  for (const std::string& address : options.addresses) {
    Replica& replica = replicas_.emplace_back();
    replica.address = address;
    replica.channel = OpenRetrievalChannel(address);
    replica.stub = v1::EmbeddingService::NewStub(replica.channel);
  }
}

EmbeddingReplicas::~EmbeddingReplicas() { ReportWaiting(""); }

template <class Done>
absl::Status EmbeddingReplicas::Run(Done done) {
  constexpr milliseconds kTick{20};
  alone_since_ = Clock::now();
  while (!done()) {
    if (options_.check) RETURN_IF_ERROR(options_.check());
    Connect();
    HandOut();
    if (const auto event = events_.Pop(kTick)) RETURN_IF_ERROR(Handle(*event));
    CheckDeadlines();
    ReportWaiting(DescribeWaiting());
    RETURN_IF_ERROR(CheckGivenUp());
  }
  return absl::OkStatus();
}

void EmbeddingReplicas::Connect() {
  const auto now = Clock::now();
  for (Replica& replica : replicas_) {
    if (replica.stream != nullptr || replica.refuses || now < replica.retry_at) continue;
    // The first attempt fails at once, to report the error early. Later attempts wait for the
    // connection, because gRPC tries to connect only while a waiting call exists.
    const bool patient = replica.num_failures > 0;
    if (patient) grpc::experimental::ChannelResetConnectionBackoff(replica.channel.get());
    replica.stream_number = ++num_streams_;
    replica.cancelled = false;
    replica.waiting_since = now;
    replica.stream = std::make_unique<EmbeddingStream>(replica.stub.get(), replica.stream_number,
                                                       patient, &events_);
  }
}

EmbeddingReplicas::Replica* EmbeddingReplicas::LeastBusy() {
  Replica* best = nullptr;
  for (Replica& replica : replicas_) {
    if (!replica.ready ||
        static_cast<int>(replica.unanswered.size()) >= options_.batches_in_flight) {
      continue;
    }
    if (best == nullptr || replica.unanswered.size() < best->unanswered.size()) best = &replica;
  }
  return best;
}

void EmbeddingReplicas::HandOut() {
  while (!work_.pending.empty()) {
    Replica* replica = LeastBusy();
    if (replica == nullptr) return;
    Send(replica, work_.pending.front());
    work_.pending.pop_front();
  }
}

void EmbeddingReplicas::Send(Replica* replica, size_t batch) {
  v1::EmbedRequest request;
  request.set_batch(static_cast<int64_t>(batch));
  const auto [begin, end] = work_.batches[batch];
  for (size_t i = begin; i < end; ++i) {
    request.add_texts(work_.texts[i].data(), work_.texts[i].size());
  }
  if (replica->unanswered.empty()) replica->waiting_since = Clock::now();
  replica->unanswered.push_back(batch);
  ++work_.attempts[batch];
  replica->stream->Send(std::move(request));
}

EmbeddingReplicas::Replica* EmbeddingReplicas::FindReplica(int64_t stream) {
  for (Replica& replica : replicas_) {
    if (replica.stream != nullptr && replica.stream_number == stream) return &replica;
  }
  return nullptr;
}

absl::Status EmbeddingReplicas::Handle(const EmbeddingEvent& event) {
  Replica* replica = FindReplica(event.stream);
  if (replica == nullptr) return absl::OkStatus();  // the event belongs to an earlier call
  switch (event.kind) {
    case EmbeddingEvent::Kind::kReady:
      return TakeReady(event, replica);
    case EmbeddingEvent::Kind::kAnswer:
      return TakeAnswer(event.answer, replica);
    case EmbeddingEvent::Kind::kEnded:
      return TakeEnd(event.status, replica);
  }
  return absl::OkStatus();
}

absl::Status EmbeddingReplicas::TakeReady(const EmbeddingEvent& event, Replica* replica) {
  int32_t dimension = 0;
  if (!absl::SimpleAtoi(event.dimension, &dimension) || dimension < 1 ||
      event.fingerprint.empty()) {
    return replica->Locate(
        absl::FailedPreconditionError("sent neither dimension nor fingerprint; check that a braid "
                                      "embedding server listens there"));
  }
  if (reference_.empty()) {
    dimension_ = dimension;
    fingerprint_ = event.fingerprint;
    if (!absl::SimpleAtoi(event.batch_texts, &batch_texts_)) batch_texts_ = 0;
    batch_texts_ = std::clamp<int64_t>(batch_texts_, 0, MaxTextsOfBatch(dimension));
    reference_ = replica->address;
  }
  if (event.fingerprint == fingerprint_ && dimension == dimension_) {
    replica->ready = true;
    replica->problem = absl::OkStatus();
    return absl::OkStatus();
  }
  replica->problem = absl::FailedPreconditionError(
      absl::StrCat("embeds with \"", event.fingerprint, "\" in ", dimension,
                   " dimensions, expected \"", fingerprint_, "\" in ", dimension_, " as ",
                   reference_, " does; restart the one that differs"));
  if (learning_) return replica->Locate(replica->problem);
  // The replica was restarted with another embedder. It counts as unavailable, and the call
  // continues with the others.
  replica->cancelled = true;
  replica->stream->Cancel();
  return absl::OkStatus();
}

absl::Status EmbeddingReplicas::TakeAnswer(const v1::EmbedResponse& answer, Replica* replica) {
  const bool in_turn = !replica->unanswered.empty() &&
                       static_cast<int64_t>(replica->unanswered.front()) == answer.batch();
  // Signs of life count too: the deadline limits silence, not the time for a batch.
  replica->waiting_since = Clock::now();
  if (!in_turn) {
    return replica->Locate(absl::InternalError(absl::StrCat(
        "got an answer for batch ", answer.batch(), ", expected one for ",
        replica->unanswered.empty() ? "no batch" : absl::StrCat(replica->unanswered.front()))));
  }
  if (answer.working()) return absl::OkStatus();
  const EmbeddingBatch batch = work_.batches[replica->unanswered.front()];
  const absl::Status good =
      CheckEmbeddingAnswer(answer, static_cast<int64_t>(batch.end - batch.begin), dimension_);
  if (!good.ok()) return replica->Locate(good);
  const auto offset = static_cast<int64_t>(batch.begin) * dimension_;
  std::ranges::copy(answer.values(), work_.vectors.begin() + offset);
  replica->unanswered.pop_front();
  replica->num_failures = 0;
  ++work_.num_answered;
  work_.num_truncated += answer.num_truncated();
  return absl::OkStatus();
}

absl::Status EmbeddingReplicas::TakeEnd(const absl::Status& status, Replica* replica) {
  // After a cancellation by this client, `problem` has its cause, and `status` is only CANCELLED.
  if (!replica->cancelled) {
    replica->problem = status.ok() ? absl::UnavailableError("the server ended the stream")
                                   : PlainConnectionError(status);
  }
  replica->stream.reset();
  replica->ready = false;
  replica->retry_at = Clock::now() + RetryDelay(replica->num_failures++);
  // Inserts the unanswered batches in order before those never sent.
  for (; !replica->unanswered.empty(); replica->unanswered.pop_back()) {
    const size_t batch = replica->unanswered.back();
    if (work_.attempts[batch] >= options_.max_attempts) return replica->Locate(replica->problem);
    work_.pending.push_front(batch);
  }
  if (IsTransientEmbeddingError(status)) return absl::OkStatus();
  // Only this replica may be unable to work, as after its model was changed.
  replica->refuses = absl::IsFailedPrecondition(status) && !learning_;
  const bool others_remain =
      replica->refuses &&
      !std::ranges::all_of(replicas_, [](const Replica& r) { return r.refuses; });
  return others_remain ? absl::OkStatus() : replica->Locate(status);
}

void EmbeddingReplicas::CheckDeadlines() {
  const auto now = Clock::now();
  for (Replica& replica : replicas_) {
    if (replica.stream == nullptr || (replica.ready && replica.unanswered.empty())) continue;
    const milliseconds limit = replica.ready ? options_.deadline : options_.connect_deadline;
    if (replica.cancelled || now - replica.waiting_since < limit) continue;
    // An attempt that waits for a connection keeps the error of the first one, which says more.
    if (replica.ready || replica.problem.ok()) {
      replica.problem = absl::DeadlineExceededError(
          absl::StrCat("no answer within ", static_cast<double>(limit.count()) / 1000, " s"));
    }
    replica.cancelled = true;
    replica.stream->Cancel();
  }
}

absl::Status EmbeddingReplicas::CheckGivenUp() {
  const auto now = Clock::now();
  if (std::ranges::any_of(replicas_, [](const Replica& r) { return r.ready; })) alone_since_ = now;
  if (now - alone_since_ < options_.give_up_after) return absl::OkStatus();
  std::string problems;
  for (const Replica& replica : replicas_) {
    absl::StrAppend(&problems, "; ", replica.address, ": ",
                    replica.problem.ok() ? "no answer yet" : replica.problem.message());
  }
  return absl::UnavailableError(
      absl::StrCat("no embedding server was available for ",
                   static_cast<double>(options_.give_up_after.count()) / 1000,
                   " s; start one, then resume the job", problems));
}

std::string EmbeddingReplicas::DescribeWaiting() const {
  std::string silent;
  for (const Replica& replica : replicas_) {
    if (replica.ready || replica.problem.ok()) continue;
    absl::StrAppend(&silent, silent.empty() ? "" : ", ", replica.address, " (",
                    std::string(replica.problem.message()), ")");
  }
  if (silent.empty()) return "";
  if (std::ranges::any_of(replicas_, [](const Replica& r) { return r.ready; })) {
    return absl::StrCat("no answer from embedding server ", silent,
                        "; the others do the work meanwhile");
  }
  return absl::StrCat("no answer from embedding server ", silent, "; waiting up to ",
                      static_cast<double>(options_.give_up_after.count()) / 1000, " s");
}

void EmbeddingReplicas::ReportWaiting(const std::string& waiting) {
  if (!options_.on_waiting || waiting == waiting_) return;
  waiting_ = waiting;
  options_.on_waiting(waiting);
}

// Closes the streams at the end of a call, so that a server can shut down between calls.
void EmbeddingReplicas::CloseStreams() {
  for (Replica& replica : replicas_) {
    if (replica.ready && replica.unanswered.empty()) replica.stream->Finish();
  }
  for (Replica& replica : replicas_) {
    replica.stream.reset();
    replica.ready = false;
    replica.refuses = false;
    replica.unanswered.clear();
  }
}

absl::Status EmbeddingReplicas::Learn() {
  const std::lock_guard lock(mutex_);
  learning_ = true;
  const absl::Status status = Run([&] {
    const bool all_heard = std::ranges::all_of(
        replicas_, [](const Replica& r) { return r.ready || r.num_failures > 0; });
    return all_heard && !reference_.empty();
  });
  learning_ = false;
  CloseStreams();
  return status;
}

int64_t EmbeddingReplicas::preferred_batch_texts() const {
  // The last batches of a call leave some replicas idle, so a call has several times as many
  // batches as can be in flight.
  constexpr int64_t kBatchesOfReplica = 4;
  return batch_texts_ * kBatchesOfReplica * static_cast<int64_t>(replicas_.size());
}

absl::StatusOr<int64_t> EmbeddingReplicas::Embed(std::span<const std::string_view> texts,
                                                 std::span<float> vectors) {
  // Slow embedders read every text to the same maximum length, so time depends on the number of
  // texts.
  ASSIGN_OR_RETURN(
      std::vector<EmbeddingBatch> batches,
      batch_texts_ > 0
          ? SplitIntoBatches(texts, dimension_, kMaxEmbeddingMessageBytes, batch_texts_)
          : SplitIntoBatches(texts, dimension_, options_.batch_bytes, MaxTextsOfBatch(dimension_)));
  const std::lock_guard lock(mutex_);
  work_ = {.texts = texts, .vectors = vectors, .batches = std::move(batches)};
  work_.attempts.resize(work_.batches.size());
  for (size_t i = 0; i < work_.batches.size(); ++i) work_.pending.push_back(i);
  const absl::Status status = Run([&] { return work_.num_answered == work_.batches.size(); });
  if (!status.ok()) ReportWaiting("");
  const int64_t num_truncated = work_.num_truncated;
  CloseStreams();
  work_ = {};
  RETURN_IF_ERROR(status);
  return num_truncated;
}

}  // namespace braid
