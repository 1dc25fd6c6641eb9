// A training service over an in-process channel, whose supervisors are real and whose trainers are
// fake.
#ifndef BRAID_TESTS_CONTROL_TRAINING_SERVICE_FIXTURE_H_
#define BRAID_TESTS_CONTROL_TRAINING_SERVICE_FIXTURE_H_

#include <grpcpp/grpcpp.h>
#include <signal.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "braid/v1/training.grpc.pb.h"
#include "control/supervision/run_process.h"
#include "control/training_service.h"
#include "runs/process_identity.h"
#include "tests/control/control_fixture.h"

namespace braid {

class TrainingServiceFixture : public ControlFixture {
 protected:
  TrainingServiceFixture() { Start(Options()); }
  ~TrainingServiceFixture() override {
    server_->Shutdown(std::chrono::system_clock::now());
    server_ = nullptr;
    service_ = nullptr;  // it would restart the supervisors
    // Kills what a failed expectation has left running.
    for (const auto& entry : std::filesystem::directory_iterator(root_ / "home/runs")) {
      const RunDirectory run(entry.path());
      if (const auto supervisor = ReadProcessRecord(run.process());
          supervisor.ok() && IsAlive(supervisor->identity)) {
        kill(static_cast<pid_t>(supervisor->identity.pid), SIGKILL);
      }
      for (int64_t pid : RankProcesses(run)) kill(static_cast<pid_t>(pid), SIGKILL);
    }
  }

  ControlOptions Options() const {
    ControlOptions options = ControlFixture::Options();
    options.supervisor_binary = BRAID_SUPERVISOR;
    return options;
  }
  v1::RunSpec Spec(const std::string& name) const {
    v1::RunSpec spec = ControlFixture::Spec(name);
    spec.mutable_supervision()->set_max_restarts(0);
    return spec;
  }

  // Replaces the control plane by a new one over the same home.
  void Start(const ControlOptions& options) {
    server_ = nullptr;
    service_ = MakeTrainingService(options).value();
    grpc::ServerBuilder builder;
    builder.RegisterService(service_.get());
    server_ = builder.BuildAndStart();
    stub_ = v1::TrainingService::NewStub(server_->InProcessChannel(grpc::ChannelArguments()));
  }

  static void SetDeadline(grpc::ClientContext* context) {
    context->set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(30));
  }
  template <class Request, class Response>
  grpc::Status Call(grpc::Status (v1::TrainingService::Stub::*method)(grpc::ClientContext*,
                                                                      const Request&, Response*),
                    const Request& request, Response* response) {
    grpc::ClientContext context;
    SetDeadline(&context);
    return (stub_.get()->*method)(&context, request, response);
  }
  template <class Request>
  static Request WithId(const std::string& id) {
    Request request;
    request.set_id(id);
    return request;
  }
  grpc::Status Launch(const v1::RunSpec& spec, const std::string& request_id, v1::Run* run) {
    v1::LaunchRunRequest request;
    *request.mutable_spec() = spec;
    request.set_request_id(request_id);
    return Call(&v1::TrainingService::Stub::LaunchRun, request, run);
  }
  v1::Run Launched(const std::string& name) {
    v1::Run run;
    const grpc::Status status = Launch(Spec(name), "", &run);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return run;
  }
  v1::Run Get(const std::string& id) {
    v1::Run run;
    EXPECT_TRUE(Call(&v1::TrainingService::Stub::GetRun, WithId<v1::GetRunRequest>(id), &run).ok());
    return run;
  }
  grpc::Status Stop(const std::string& id, v1::Run* run) {
    return Call(&v1::TrainingService::Stub::StopRun, WithId<v1::StopRunRequest>(id), run);
  }
  grpc::Status Resume(const std::string& id, v1::Run* run) {
    return Call(&v1::TrainingService::Stub::ResumeRun, WithId<v1::ResumeRunRequest>(id), run);
  }
  v1::ListRunsResponse List(const v1::ListRunsRequest& request = {}) {
    v1::ListRunsResponse page;
    EXPECT_TRUE(Call(&v1::TrainingService::Stub::ListRuns, request, &page).ok());
    return page;
  }
  std::vector<v1::RunEvent> Watch(const std::string& id, int64_t after) {
    grpc::ClientContext context;
    SetDeadline(&context);
    v1::WatchRunRequest request;
    request.set_id(id);
    request.set_after_event(after);
    auto reader = stub_->WatchRun(&context, request);
    std::vector<v1::RunEvent> events;
    for (v1::RunEvent event; reader->Read(&event);) events.push_back(event);
    const grpc::Status status = reader->Finish();
    EXPECT_TRUE(status.ok()) << status.error_message();
    return events;
  }

  std::unique_ptr<grpc::Service> service_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<v1::TrainingService::Stub> stub_;
};

}  // namespace braid

#endif  // BRAID_TESTS_CONTROL_TRAINING_SERVICE_FIXTURE_H_
