// braid.v1.TrainingService over run directories. See proto/braid/v1/training.proto
// for the calls and docs/control_plane.md for the flow.
#ifndef BRAID_TRAINER_CONTROL_TRAINING_SERVICE_H_
#define BRAID_TRAINER_CONTROL_TRAINING_SERVICE_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "braid/v1/training.grpc.pb.h"
#include "trainer/control/control_service.h"
#include "trainer/control/run_status.h"
#include "trainer/control/run_stopper.h"
#include "trainer/control/run_store.h"

namespace braid {

class TrainingServiceImpl final : public v1::TrainingService::Service {
 public:
  TrainingServiceImpl(const ControlOptions& options, std::unique_ptr<RunStore> store);

  grpc::Status LaunchRun(grpc::ServerContext* context, const v1::LaunchRunRequest* request,
                         v1::Run* response) override;
  grpc::Status GetRun(grpc::ServerContext* context, const v1::GetRunRequest* request,
                      v1::Run* response) override;
  grpc::Status ListRuns(grpc::ServerContext* context, const v1::ListRunsRequest* request,
                        v1::ListRunsResponse* response) override;
  grpc::Status WatchRun(grpc::ServerContext* context, const v1::WatchRunRequest* request,
                        grpc::ServerWriter<v1::RunEvent>* writer) override;
  grpc::Status StopRun(grpc::ServerContext* context, const v1::StopRunRequest* request,
                       v1::Run* response) override;
  grpc::Status ResumeRun(grpc::ServerContext* context, const v1::ResumeRunRequest* request,
                         v1::Run* response) override;

 private:
  absl::StatusOr<v1::Run> Launch(const v1::LaunchRunRequest& request);
  absl::StatusOr<v1::Run> Resume(const std::string& id);
  absl::StatusOr<v1::Run> Stop(const std::string& id, grpc::ServerContext* context);
  absl::Status Watch(const v1::WatchRunRequest& request, grpc::ServerContext* context,
                     grpc::ServerWriter<v1::RunEvent>* writer);

  const LauncherPrograms programs_;
  const std::unique_ptr<RunStore> store_;
  RunStopper stopper_;
};

}  // namespace braid

#endif  // BRAID_TRAINER_CONTROL_TRAINING_SERVICE_H_
