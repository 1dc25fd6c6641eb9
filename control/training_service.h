// braid.v1.TrainingService over run directories. See proto/braid/v1/training.proto for the calls
// and docs/control.md for the flow.
#ifndef BRAID_CONTROL_TRAINING_SERVICE_H_
#define BRAID_CONTROL_TRAINING_SERVICE_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/directory_use.h"
#include "braid/v1/training.grpc.pb.h"
#include "control/control_service.h"
#include "control/run_descriptions.h"
#include "control/run_keeper.h"
#include "control/run_status.h"
#include "control/run_store.h"
#include "rpc/event_source.h"
#include "rpc/grpc_event_stream.h"

namespace braid {

// WatchRun is long-lived, so it uses the callback API and holds no thread.
using TrainingServiceBase =
    v1::TrainingService::WithCallbackMethod_WatchRun<v1::TrainingService::Service>;

class TrainingServiceImpl final : public TrainingServiceBase {
 public:
  TrainingServiceImpl(const ControlOptions& options, std::unique_ptr<RunStore> store);

  grpc::Status LaunchRun(grpc::ServerContext* context, const v1::LaunchRunRequest* request,
                         v1::Run* response) override;
  grpc::Status GetRun(grpc::ServerContext* context, const v1::GetRunRequest* request,
                      v1::Run* response) override;
  grpc::Status ListRuns(grpc::ServerContext* context, const v1::ListRunsRequest* request,
                        v1::ListRunsResponse* response) override;
  grpc::ServerWriteReactor<v1::RunEvent>* WatchRun(grpc::CallbackServerContext* context,
                                                   const v1::WatchRunRequest* request) override;
  grpc::Status StopRun(grpc::ServerContext* context, const v1::StopRunRequest* request,
                       v1::Run* response) override;
  grpc::Status ResumeRun(grpc::ServerContext* context, const v1::ResumeRunRequest* request,
                         v1::Run* response) override;

 private:
  using Source = EventSource<v1::RunEvent>;

  // Called by the keeper for a run that has not ended.
  absl::Status Keep(const RunDirectory& run) const;
  RunOwner OwnerOf(const grpc::ServerContext& context, int64_t ranks) const;
  absl::StatusOr<RunDirectory> BranchSource(const v1::RunSpec& spec) const;
  absl::StatusOr<v1::RunSpec> WithBranch(const v1::RunSpec& asked) const;
  absl::StatusOr<std::vector<DirectoryUse>> UseInputs(const v1::RunSpec& asked) const;
  absl::Status WriteFirst(const RunDirectory& run, const v1::RunSpec& resolved) const;
  absl::StatusOr<v1::Run> Launch(const v1::LaunchRunRequest& request,
                                 const grpc::ServerContext& context);
  // `first` is the resolved spec of a run that was never started, or null for a run that has ended.
  absl::Status Start(const RunRecord& record, const v1::RunSpec* first, const RunOwner& limits);
  absl::StatusOr<v1::Run> Resume(const std::string& id, const grpc::ServerContext& context);
  absl::StatusOr<v1::Run> Stop(const std::string& id, grpc::ServerContext* context);
  absl::StatusOr<v1::ListRunsResponse> Page(const v1::ListRunsRequest& request);
  absl::StatusOr<std::unique_ptr<Source>> OpenEvents(const std::string& id);

  const ControlOptions options_;
  const LauncherPrograms programs_;
  const std::unique_ptr<RunStore> store_;
  RunDescriptions descriptions_;
  RunKeeper keeper_;                    // its thread uses the store
  EventStreams<v1::RunEvent> watches_;  // its thread uses the store
};

}  // namespace braid

#endif  // BRAID_CONTROL_TRAINING_SERVICE_H_
