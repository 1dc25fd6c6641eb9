#include "control/generation_service.h"

#include <filesystem>
#include <mutex>
#include <optional>
#include <system_error>
#include <utility>

#include "base/status_macros.h"
#include "control/model_directory.h"
#include "rpc/grpc_status.h"

namespace braid {
namespace {

// Merges what has not been sent to the client into one event: texts and changes of routing are
// concatenated, the source of the first event stays, of everything else the newest value is kept.
void Merge(v1::GenerateEvent event, v1::GenerateEvent* pending) {
  event.mutable_text()->insert(0, pending->text());
  event.mutable_routing()->Swap(pending->mutable_routing());
  event.mutable_routing()->MergeFrom(pending->routing());
  if (pending->has_source()) event.mutable_source()->Swap(pending->mutable_source());
  pending->Swap(&event);
}

// Returns the canonical path, which identifies a model in memory by whatever path it was requested.
std::filesystem::path Canonical(const std::filesystem::path& directory) {
  std::error_code error;
  std::filesystem::path canonical = std::filesystem::canonical(directory, error);
  return error ? directory : canonical;
}

// Streams the events of one call. At most two events are in memory: the one that is being written,
// and one into which later events are merged. The second is never longer than a text, so the model
// does not have to wait for a client that does not read. The object keeps itself alive until gRPC
// calls OnDone.
class GenerateCall final : public grpc::ServerWriteReactor<v1::GenerateEvent>,
                           public std::enable_shared_from_this<GenerateCall> {
 public:
  explicit GenerateCall(ModelServer* server) : server_(server) {}

  void Begin(const absl::StatusOr<std::filesystem::path>& model,
             const v1::GenerateRequest& request) {
    // Before Submit, after which another thread may finish the call at any time.
    self_ = shared_from_this();
    if (const absl::Status submitted = Submit(model, request); !submitted.ok()) {
      const std::lock_guard lock(mutex_);
      FinishOnce(submitted);
    }
  }

  void OnWriteDone(bool ok) override {
    const std::lock_guard lock(mutex_);
    writing_ = false;
    if (!ok) end_ = absl::CancelledError("the client has disconnected");
    if (!ok) pending_.reset();
    Continue();
  }

  // gRPC calls this after Generate has returned the object, when id_ is known.
  void OnCancel() override {
    server_->Cancel(id());
    const std::lock_guard lock(mutex_);
    end_ = absl::CancelledError("the client ended the call");
    pending_.reset();
    Continue();
  }

  // gRPC calls this after all other callbacks have returned, and Add and End are called through
  // references, so Finish may be called with mutex_ held.
  void OnDone() override { std::exchange(self_, nullptr).reset(); }

 private:
  absl::Status Submit(const absl::StatusOr<std::filesystem::path>& model,
                      const v1::GenerateRequest& request) {
    RETURN_IF_ERROR(model.status());
    const auto self = shared_from_this();
    ASSIGN_OR_RETURN(
        const uint64_t id,
        server_->Submit(
            Canonical(*model), request,
            {.on_event = [self](v1::GenerateEvent event) { self->Add(std::move(event)); },
             .on_end = [self](const absl::Status& status) { self->End(status); }}));
    const std::lock_guard lock(mutex_);
    id_ = id;
    return absl::OkStatus();
  }

  uint64_t id() const {
    const std::lock_guard lock(mutex_);
    return id_;
  }

  void Add(v1::GenerateEvent event) {
    const std::lock_guard lock(mutex_);
    if (end_.has_value()) return;
    if (!pending_.has_value()) pending_.emplace();
    Merge(std::move(event), &*pending_);
    Continue();
  }

  void End(const absl::Status& status) {
    const std::lock_guard lock(mutex_);
    if (!end_.has_value()) end_ = status;
    Continue();
  }

  // Starts the next write or finishes the call, unless a write is in progress. Requires mutex_.
  void Continue() {
    if (writing_ || finished_) return;
    if (pending_.has_value()) {
      current_ = *std::exchange(pending_, std::nullopt);
      writing_ = true;
      return StartWrite(&current_);
    }
    if (end_.has_value()) FinishOnce(*end_);
  }

  void FinishOnce(const absl::Status& status) {
    if (!std::exchange(finished_, true)) Finish(ToGrpc(status));
  }

  ModelServer* const server_;
  std::shared_ptr<GenerateCall> self_;

  mutable std::mutex mutex_;
  uint64_t id_ = 0;
  std::optional<v1::GenerateEvent> pending_;
  v1::GenerateEvent current_;  // owned by gRPC while writing_
  std::optional<absl::Status> end_;
  bool writing_ = false;
  bool finished_ = false;
};

ModelServerOptions ServingOptions(const ControlOptions& options) {
  ModelServerOptions serving = options.serving;
  serving.trainer = options.trainer_binary.string();
  serving.home = options.home;
  return serving;
}

}  // namespace

absl::StatusOr<std::unique_ptr<grpc::Service>> MakeGenerationService(
    const ControlOptions& options) {
  ASSIGN_OR_RETURN(std::unique_ptr<RunStore> store, RunStore::Open(options.home, options.state));
  return std::make_unique<GenerationServiceImpl>(options, std::move(store));
}

GenerationServiceImpl::GenerationServiceImpl(const ControlOptions& options,
                                             std::unique_ptr<RunStore> store)
    : store_(std::move(store)), server_(ServingOptions(options)) {}

grpc::ServerWriteReactor<v1::GenerateEvent>* GenerationServiceImpl::Generate(
    grpc::CallbackServerContext* /*context*/, const v1::GenerateRequest* request) {
  const auto call = std::make_shared<GenerateCall>(&server_);
  call->Begin(ModelDirectory(*store_, request->model()), *request);
  return call.get();
}

grpc::Status GenerationServiceImpl::DescribeServing(grpc::ServerContext* /*context*/,
                                                    const v1::DescribeServingRequest* /*request*/,
                                                    v1::DescribeServingResponse* response) {
  *response = server_.Describe();
  return grpc::Status::OK;
}

}  // namespace braid
