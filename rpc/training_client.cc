#include "rpc/training_client.h"

#include "braid/v1/training.grpc.pb.h"
#include "rpc/grpc_call.h"

namespace braid {

absl::StatusOr<v1::Run> TrainingClient::LaunchRun(const v1::LaunchRunRequest& request) {
  return Call<v1::Run>(*v1::TrainingService::NewStub(channel_),
                       &v1::TrainingService::Stub::LaunchRun, request);
}

absl::StatusOr<v1::Run> TrainingClient::GetRun(const std::string& id) {
  return Call<v1::Run>(*v1::TrainingService::NewStub(channel_), &v1::TrainingService::Stub::GetRun,
                       WithId<v1::GetRunRequest>(id));
}

absl::StatusOr<v1::ListRunsResponse> TrainingClient::ListRuns() {
  return AllPages<v1::ListRunsResponse>(*v1::TrainingService::NewStub(channel_),
                                        &v1::TrainingService::Stub::ListRuns);
}

absl::StatusOr<v1::Run> TrainingClient::StopRun(const std::string& id) {
  return Call<v1::Run>(*v1::TrainingService::NewStub(channel_), &v1::TrainingService::Stub::StopRun,
                       WithId<v1::StopRunRequest>(id));
}

absl::StatusOr<v1::Run> TrainingClient::ResumeRun(const std::string& id) {
  return Call<v1::Run>(*v1::TrainingService::NewStub(channel_),
                       &v1::TrainingService::Stub::ResumeRun, WithId<v1::ResumeRunRequest>(id));
}

absl::Status TrainingClient::WatchRun(const std::string& id,
                                      const std::function<bool(const v1::RunEvent&)>& on_event,
                                      int64_t after_event, const std::function<void()>& on_lost) {
  auto request = WithId<v1::WatchRunRequest>(id);
  request.set_after_event(after_event);
  return WatchEvents<v1::RunEvent>(*channel_, *v1::TrainingService::NewStub(channel_),
                                   &v1::TrainingService::Stub::WatchRun, request, on_event,
                                   kReconnectFor, kStreamDeadline, on_lost);
}

}  // namespace braid
