#include "control/model_server.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "control/model_version.h"
#include "runs/model_path.h"

namespace braid {

// A child process with a model, from its start to its end.
struct ModelServer::Model {
  std::filesystem::path directory;
  std::string version;  // at the time of the request; the child may have loaded a newer one
  v1::ServedModel description;
  Clock::time_point last_used = Clock::now();
  bool leaving = false;  // gets no more requests, and is unloaded when idle
  std::unique_ptr<ServingChild> child;

  bool idle() const { return description.active_requests() == 0; }
  bool IsOf(const std::filesystem::path& path, const std::string& newest) const {
    const std::string loaded = std::filesystem::path(description.checkpoint()).filename();
    return directory == path && (newest == version || newest == loaded);
  }
  void Leave() {
    leaving = true;
    child->End();
  }
};

struct ModelServer::Request {
  uint64_t id = 0;
  std::filesystem::path directory;
  std::string version;  // version of the model when the request arrived
  v1::GenerateRequest request;
  Callbacks callbacks;
  ModelPtr model = nullptr;  // once it is active
  int64_t tokens_sampled = 0;
};

namespace {

v1::ServingCommand CancelOf(uint64_t id) {
  v1::ServingCommand command;
  command.set_id(id);
  command.set_cancel(true);
  return command;
}

absl::Status ServerEnds() { return absl::UnavailableError("the server is shutting down"); }

absl::Status StatusOf(const v1::ServingError& error) {
  return absl::Status(static_cast<absl::StatusCode>(error.code()), error.message());
}

}  // namespace

ModelServer::ModelServer(const ModelServerOptions& options)
    : options_(options), thread_([this] { WatchModels(); }) {}

ModelServer::~ModelServer() {
  std::vector<ModelPtr> models;
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
    models = models_;
    for (const ModelPtr& model : models) model->Leave();
  }
  changed_.notify_all();
  thread_.join();
  // Joins the threads of the children; without the mutex, since they may be about to call Reported
  // or Ended, which lock it.
  for (const ModelPtr& model : models) model->child.reset();
  for (const ModelPtr& model : ended_) model->child.reset();
  for (const RequestPtr& request : waiting_) request->callbacks.on_end(ServerEnds());
}

absl::StatusOr<uint64_t> ModelServer::Submit(const std::filesystem::path& model,
                                             v1::GenerateRequest request, Callbacks callbacks) {
  // Before the lock, because this reads a directory.
  std::string version = ModelVersion(model);
  const std::lock_guard lock(mutex_);
  // Counted together: thread_ decides which of the waiting requests can start.
  const auto present = static_cast<int64_t>(active_.size() + waiting_.size());
  if (present >= int64_t{options_.max_active} + options_.max_waiting) {
    totals_.set_requests_refused(totals_.requests_refused() + 1);
    return absl::ResourceExhaustedError(
        absl::StrCat("generation: ", present, " requests are active or waiting, the limit is ",
                     options_.max_active, " active and ", options_.max_waiting,
                     " waiting; retry later, or start braidd with more --generate-queue or "
                     "--generate-active"));
  }
  request.set_model(model.string());
  const uint64_t id = ++newest_id_;
  waiting_.push_back(std::make_shared<Request>(Request{.id = id,
                                                       .directory = model,
                                                       .version = std::move(version),
                                                       .request = std::move(request),
                                                       .callbacks = std::move(callbacks)}));
  // thread_ starts it, so callbacks are never called from within Submit.
  changed_.notify_all();
  return id;
}

void ModelServer::Cancel(uint64_t id) {
  const std::lock_guard lock(mutex_);
  const RequestPtr active = TakeActive(id);
  // The child exists: Ended removes the requests of a model before its child is destroyed.
  if (active != nullptr) active->model->child->Send(CancelOf(id));
  const auto erased = std::erase_if(waiting_, [id](const auto& other) { return other->id == id; });
  if (active == nullptr && erased == 0) return;
  totals_.set_requests_cancelled(totals_.requests_cancelled() + 1);
  changed_.notify_all();
}

// Removes and returns the request if it is active.
ModelServer::RequestPtr ModelServer::TakeActive(uint64_t id) {
  const auto found = active_.find(id);
  if (found == active_.end()) return nullptr;
  RequestPtr request = std::move(found->second);
  active_.erase(found);
  v1::ServedModel& description = request->model->description;
  description.set_active_requests(description.active_requests() - 1);
  request->model->last_used = Clock::now();
  return request;
}

void ModelServer::StartRequests() {
  while (!waiting_.empty() && static_cast<int>(active_.size()) < options_.max_active) {
    const RequestPtr request = waiting_.front();
    absl::StatusOr<ModelPtr> model = PlaceOf(*request);
    if (model.ok() && *model == nullptr) return;  // all places are taken
    waiting_.pop_front();
    if (!model.ok()) {
      totals_.set_requests_failed(totals_.requests_failed() + 1);
      refused_.emplace_back(request, model.status());
      continue;
    }
    request->model = *model;
    v1::ServedModel& description = (*model)->description;
    description.set_active_requests(description.active_requests() + 1);
    active_[request->id] = request;
    v1::ServingCommand command;
    command.set_id(request->id);
    command.mutable_generate()->Swap(&request->request);
    (*model)->child->Send(command);
  }
}

// Returns null while there is no room for the model.
absl::StatusOr<ModelServer::ModelPtr> ModelServer::PlaceOf(const Request& request) {
  for (const ModelPtr& model : models_) {
    if (model->directory != request.directory || model->leaving) continue;
    if (model->IsOf(request.directory, request.version)) return model;
    model->leaving = true;  // EndStaleModels ends it after its last request
  }
  EndStaleModels();
  return MakeRoom() ? Load(request) : nullptr;
}

absl::StatusOr<ModelServer::ModelPtr> ModelServer::Load(const Request& request) {
  auto model = std::make_shared<Model>();
  model->directory = request.directory;
  model->version = request.version;
  model->description.set_model(request.directory.string());
  // The model owns the child, so the child's callbacks hold only a weak reference to the model.
  const std::weak_ptr<Model> weak = model;
  ServingChild::Callbacks callbacks{.on_report =
                                        [this, weak](v1::ServingReport report) {
                                          if (const ModelPtr reporter = weak.lock())
                                            Reported(reporter, std::move(report));
                                        },
                                    .on_end =
                                        [this, weak](const absl::Status& cause) {
                                          if (const ModelPtr ended = weak.lock())
                                            Ended(ended, cause);
                                        }};
  ASSIGN_OR_RETURN(model->child, ServingChild::Start({.trainer = options_.trainer,
                                                      .model = request.directory,
                                                      .home = options_.home,
                                                      .num_threads = options_.num_threads,
                                                      .together = options_.together},
                                                     std::move(callbacks)));
  // A child that has ended already is not missed: its call of Ended waits for the mutex.
  models_.push_back(model);
  return model;
}

// Returns whether one more model may be loaded. If not, starts to unload the one that has been idle
// longest, unless one is being unloaded already.
bool ModelServer::MakeRoom() {
  // A model that is being unloaded counts until its child has exited and freed the memory.
  if (static_cast<int>(models_.size()) < options_.max_models) return true;
  ModelPtr oldest;
  for (const ModelPtr& model : models_) {
    if (!model->idle()) continue;
    if (model->leaving) return false;
    if (oldest == nullptr || model->last_used < oldest->last_used) oldest = model;
  }
  if (oldest != nullptr) oldest->Leave();
  return false;
}

void ModelServer::EndStaleModels() {
  const Clock::time_point now = Clock::now();
  for (const ModelPtr& model : models_) {
    if (!model->idle()) continue;
    if (model->leaving || now - model->last_used >= options_.idle) model->Leave();
  }
}

void ModelServer::Reported(const ModelPtr& model, v1::ServingReport report) {
  std::unique_lock lock(mutex_);
  v1::ServedModel& description = model->description;
  if (report.has_loaded()) {
    description.set_checkpoint(report.loaded().checkpoint());
    description.set_num_parameters(report.loaded().num_parameters());
    *description.mutable_source() = report.loaded().source();
    return;
  }
  const auto found = active_.find(report.id());
  if (found == active_.end()) return;  // cancelled in the meantime
  const RequestPtr request = found->second;
  const bool done = report.event().done();
  if (done || report.has_error()) TakeActive(report.id());
  if (report.has_event()) CountTokens(*request, report.event().num_tokens());
  if (done) {
    description.set_requests_done(description.requests_done() + 1);
    totals_.set_requests_done(totals_.requests_done() + 1);
  }
  if (report.has_error()) totals_.set_requests_failed(totals_.requests_failed() + 1);
  // Callbacks are called without the mutex, so that they may use this object.
  lock.unlock();
  if (done || report.has_error()) changed_.notify_all();
  if (report.has_event()) request->callbacks.on_event(std::move(*report.mutable_event()));
  if (done) request->callbacks.on_end(absl::OkStatus());
  if (report.has_error()) request->callbacks.on_end(StatusOf(report.error()));
}

void ModelServer::CountTokens(Request& request, int64_t num_tokens) {
  const int64_t more = num_tokens - std::exchange(request.tokens_sampled, num_tokens);
  v1::ServedModel& description = request.model->description;
  description.set_tokens_sampled(description.tokens_sampled() + more);
  totals_.set_tokens_sampled(totals_.tokens_sampled() + more);
}

void ModelServer::Ended(const ModelPtr& model, const absl::Status& cause) {
  std::vector<RequestPtr> lost;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [id, request] : active_) {
      if (request->model == model) lost.push_back(request);
    }
    for (const RequestPtr& request : lost) active_.erase(request->id);
    totals_.set_requests_failed(totals_.requests_failed() + static_cast<int64_t>(lost.size()));
    std::erase(models_, model);
    // This is the thread of the child, which its destructor joins; so thread_ destroys it.
    ended_.push_back(model);
  }
  changed_.notify_all();
  // `cause` is OK after Leave, and then the model has requests only if the server shuts down.
  for (const RequestPtr& request : lost) {
    request->callbacks.on_end(cause.ok() ? ServerEnds() : cause);
  }
}

// Runs in thread_: starts requests and ends models.
void ModelServer::WatchModels() {
  // Bounds the wait, because no event announces that a model has been idle for too long.
  constexpr auto kLook = std::chrono::milliseconds(500);
  std::unique_lock lock(mutex_);
  while (!ending_) {
    EndStaleModels();
    StartRequests();
    const auto ended = std::exchange(ended_, {});
    const auto refused = std::exchange(refused_, {});
    if (ended.empty() && refused.empty()) {
      changed_.wait_for(lock, std::min<std::chrono::milliseconds>(kLook, options_.idle));
      continue;
    }
    lock.unlock();
    for (const ModelPtr& model : ended) model->child.reset();  // joins its thread
    for (const auto& [request, status] : refused) request->callbacks.on_end(status);
    lock.lock();
  }
}

v1::DescribeServingResponse ModelServer::Describe() const {
  const std::lock_guard lock(mutex_);
  v1::DescribeServingResponse response = totals_;
  for (const ModelPtr& model : models_) *response.add_models() = model->description;
  response.set_waiting(static_cast<int64_t>(waiting_.size()));
  response.set_queue_capacity(options_.max_waiting);
  response.set_active(static_cast<int64_t>(active_.size()));
  response.set_active_capacity(options_.max_active);
  return response;
}

}  // namespace braid
