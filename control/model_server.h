// Which models are in memory, which requests they work on, and which wait. No gRPC.
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
  // Models in memory at a time, each in a child of its own.
  int max_models = 2;
  // Requests that are sampled at a time, of all models, and that wait for their turn.
  int max_active = 4;
  int max_waiting = 64;
  // A model that nobody has asked for so long leaves memory.
  std::chrono::milliseconds idle = std::chrono::seconds(300);
  // Of a child; 0: all cores.
  int num_threads = 0;
  // A child makes all its texts in one step (braidd --generate-together).
  bool together = false;
};

// Requests start in the order in which they came. The first of them waits while max_active are
// sampled, and while its model has no place: then the model that has been idle for longest leaves
// memory. The others wait behind it, so none waits for ever.
//
// A model is a checkpoint: a run that has saved a newer one since gets another child for the
// requests that start from then on; those that have started stay with theirs.
//
// Thread-safe; no call waits for a model.
class ModelServer {
 public:
  // Called from any thread, one at a time for a request, but after Cancel perhaps once more.
  struct Callbacks {
    std::function<void(v1::GenerateEvent)> on_event;
    // The last.
    std::function<void(const absl::Status&)> on_end;
  };

  explicit ModelServer(const ModelServerOptions& options);
  // Ends the children. Requests that have not ended are UNAVAILABLE.
  ~ModelServer();

  // Returns the number of the request. ResourceExhausted when max_waiting wait already. `model`: a
  // run or checkpoint directory, as the request is to name it.
  absl::StatusOr<uint64_t> Submit(const std::filesystem::path& model, v1::GenerateRequest request,
                                  Callbacks callbacks);

  // Frees its place at once. Nothing happens when it has ended.
  void Cancel(uint64_t id);

  v1::DescribeServingResponse Describe() const;

 private:
  using Clock = std::chrono::steady_clock;
  struct Model;
  struct Request;
  using ModelPtr = std::shared_ptr<Model>;
  using RequestPtr = std::shared_ptr<Request>;

  // With mutex_ held.
  void StartRequests();
  absl::StatusOr<ModelPtr> PlaceOf(const Request& request);
  absl::StatusOr<ModelPtr> Load(const Request& request);
  bool MakeRoom();
  void EndStaleModels();
  RequestPtr TakeActive(uint64_t id);
  void CountTokens(Request& request, int64_t num_tokens);

  // From the children's threads.
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
  std::vector<ModelPtr> ended_;  // whose threads are still to be joined
  // Requests that could not start: told without the mutex.
  std::vector<std::pair<RequestPtr, absl::Status>> refused_;
  v1::DescribeServingResponse totals_;
  bool ending_ = false;
  std::thread thread_;  // last: it uses the others
};

}  // namespace braid

#endif  // BRAID_CONTROL_MODEL_SERVER_H_
