// Decides which models are in memory, which requests run and which wait. Independent of gRPC.
#ifndef BRAID_CONTROL_MODEL_SERVER_H_
#define BRAID_CONTROL_MODEL_SERVER_H_

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "braid/v1/generation.pb.h"
#include "control/serving_child.h"

namespace braid {

struct ModelServerOptions {
  // A path, or a name that is looked up in PATH.
  std::string trainer = "braid-trainer";
  // The home whose deletions spare the models in memory; empty: none.
  std::filesystem::path home = {};
  // Maximum number of models in memory, each in its own child process.
  int max_models = 2;
  // Maximum number of active and of waiting requests, over all models.
  int max_active = 4;
  int max_waiting = 64;
  // Time without requests after which a model is unloaded.
  std::chrono::milliseconds idle = std::chrono::seconds(300);
  // Threads of a child; 0: all cores.
  int num_threads = 0;
  // A child advances all its texts in one batched step (braidd --generate-together).
  bool together = false;
};

// Requests start in order of arrival. The first one waits while max_active requests are active, and
// while its model is not loaded and every loaded model is busy; the model that has been idle
// longest is unloaded for it. The others wait after it, so no request starves.
//
// A model is a checkpoint. When a run has saved a newer one, requests that start from then on get a
// new child; those that have started keep theirs.
//
// Thread-safe. No call blocks on a model.
class ModelServer {
 public:
  // Called from any thread, one call at a time per request. One call may still follow Cancel.
  struct Callbacks {
    std::function<void(v1::GenerateEvent)> on_event;
    // The last callback of a request.
    std::function<void(const absl::Status&)> on_end;
  };

  explicit ModelServer(const ModelServerOptions& options);
  // Ends the children. Unfinished requests end with UNAVAILABLE.
  ~ModelServer();

  // Queues a request and returns its id. ResourceExhausted when max_active + max_waiting requests
  // have not ended. `model` is a run or checkpoint directory.
  absl::StatusOr<uint64_t> Submit(const std::filesystem::path& model, v1::GenerateRequest request,
                                  Callbacks callbacks);

  // Cancels a request and frees its place at once. No effect when it has ended.
  void Cancel(uint64_t id);

  v1::DescribeServingResponse Describe() const;

 private:
  using Clock = std::chrono::steady_clock;
  struct Model;
  struct Request;
  using ModelPtr = std::shared_ptr<Model>;
  using RequestPtr = std::shared_ptr<Request>;

  // Require mutex_.
  void StartRequests();
  absl::StatusOr<ModelPtr> PlaceOf(const Request& request);
  absl::StatusOr<ModelPtr> Load(const Request& request);
  bool MakeRoom();
  void EndStaleModels();
  RequestPtr TakeActive(uint64_t id);
  void CountTokens(Request& request, int64_t num_tokens);

  // Called from the children's threads.
  void Reported(const ModelPtr& model, v1::ServingReport report);
  void Ended(const ModelPtr& model, const absl::Status& cause);

  void WatchModels();

  const ModelServerOptions options_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t newest_id_ = 0;
  std::deque<RequestPtr> waiting_;
  std::map<uint64_t, RequestPtr> active_;
  std::vector<ModelPtr> models_;
  std::vector<ModelPtr> ended_;  // their threads are still to be joined
  // Requests that could not start; their callbacks are called without the mutex.
  std::vector<std::pair<RequestPtr, absl::Status>> refused_;
  v1::DescribeServingResponse totals_;
  bool ending_ = false;
  std::thread thread_;  // last: uses the other members
};

}  // namespace braid

#endif  // BRAID_CONTROL_MODEL_SERVER_H_
