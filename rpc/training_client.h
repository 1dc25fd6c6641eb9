// A blocking client of TrainingService.
#ifndef BRAID_RPC_TRAINING_CLIENT_H_
#define BRAID_RPC_TRAINING_CLIENT_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "braid/v1/training.pb.h"

namespace grpc {
class Channel;
}

namespace braid {

// Thread-safe. Calls return the errors of the service and of the connection.
class TrainingClient {
 public:
  explicit TrainingClient(std::shared_ptr<grpc::Channel> channel) : channel_(std::move(channel)) {}

  absl::StatusOr<v1::Run> LaunchRun(const v1::LaunchRunRequest& request);
  absl::StatusOr<v1::Run> GetRun(const std::string& id);
  absl::StatusOr<v1::ListRunsResponse> ListRuns();
  absl::StatusOr<v1::Run> StopRun(const std::string& id);
  absl::StatusOr<v1::Run> ResumeRun(const std::string& id);
  // Calls `on_event` for every event with a number above `after_event` until the run ends or it
  // returns false. Continues after restarts of the server; calls `on_lost` when one takes long.
  absl::Status WatchRun(const std::string& id,
                        const std::function<bool(const v1::RunEvent&)>& on_event,
                        int64_t after_event = 0, const std::function<void()>& on_lost = nullptr);

 private:
  std::shared_ptr<grpc::Channel> channel_;
};

}  // namespace braid

#endif  // BRAID_RPC_TRAINING_CLIENT_H_
