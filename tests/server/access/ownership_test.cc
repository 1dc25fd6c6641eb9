// Submitters may change their own jobs and runs, operators all. Tested over a real port with
// tokens.
#include <gmock/gmock.h>
#include <grpcpp/create_channel.h>

#include <map>
#include <memory>
#include <string>

#include "braid/v1/pipeline.grpc.pb.h"
#include "braid/v1/training.grpc.pb.h"
#include "control/run_store.h"
#include "pipeline/jobs/job_store.h"
#include "server/access/token_file.h"
#include "server/grpc_host.h"
#include "tests/base/scratch_directory.h"
#include "tests/base/status_matchers.h"

namespace braid {
namespace ownership_test {

using grpc::StatusCode;
using testing::AllOf;
using testing::HasSubstr;

class OwnershipTest : public testing::Test {
 protected:
  // Ann's job waits in the queue; her run was never started.
  void SetUp() override {
    job_ = JobStore::Open(home_.path()).value()->Submit({}, "a", {.principal = "ann"})->id();
    run_ = RunStore::Open(home_.path()).value()->Create("a", "spec", 1, {.principal = "ann"})->id;
    HostOptions options;
    options.home = home_.path();
    options.services = {ServiceName::kPipeline, ServiceName::kTraining};
    options.listen = "127.0.0.1:0";
    options.run_jobs = false;
    options.require_token = true;
    auto host = ServiceHost::Start(options);
    ASSERT_TRUE(host.ok()) << host.status();
    host_ = *std::move(host);
    const auto channel = grpc::CreateChannel("127.0.0.1:" + std::to_string(host_->port()),
                                             grpc::InsecureChannelCredentials());
    jobs_ = v1::PipelineService::NewStub(channel);
    runs_ = v1::TrainingService::NewStub(channel);
    for (const auto& [name, role] : {std::pair{"ann", Role::kSubmitter},
                                     {"bob", Role::kSubmitter},
                                     {"olga", Role::kOperator}}) {
      tokens_[name] = CreateToken(home_.path(), name, role, 0, "").value().token;
    }
  }

  template <class Stub, class Request, class Response>
  grpc::Status Ask(Stub& stub,
                   grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*),
                   const std::string& who, const std::string& id) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    context.AddMetadata("authorization", "Bearer " + tokens_.at(who));
    Request request;
    request.set_id(id);
    Response response;
    return (stub.*method)(&context, request, &response);
  }
  grpc::Status Cancel(const std::string& who) {
    return Ask(*jobs_, &v1::PipelineService::Stub::CancelJob, who, job_);
  }
  grpc::Status ResumeJob(const std::string& who) {
    return Ask(*jobs_, &v1::PipelineService::Stub::ResumeJob, who, job_);
  }
  grpc::Status Stop(const std::string& who) {
    return Ask(*runs_, &v1::TrainingService::Stub::StopRun, who, run_);
  }
  grpc::Status ResumeRun(const std::string& who) {
    return Ask(*runs_, &v1::TrainingService::Stub::ResumeRun, who, run_);
  }

  static void ExpectRefused(const grpc::Status& status, const std::string& what) {
    EXPECT_EQ(status.error_code(), StatusCode::PERMISSION_DENIED) << status.error_message();
    EXPECT_THAT(status.error_message(),
                AllOf(HasSubstr(what + " belongs to ann"), HasSubstr("you are bob")));
  }

  ScratchDirectory home_;
  std::string job_, run_;
  std::map<std::string, std::string> tokens_;
  std::unique_ptr<ServiceHost> host_;
  std::unique_ptr<v1::PipelineService::Stub> jobs_;
  std::unique_ptr<v1::TrainingService::Stub> runs_;
};

TEST_F(OwnershipTest, AJobIsChangedByItsSubmitterAndByOperators) {
  ExpectRefused(Cancel("bob"), job_);
  ExpectRefused(ResumeJob("bob"), job_);
  EXPECT_TRUE(Ask(*jobs_, &v1::PipelineService::Stub::GetJob, "bob", job_).ok()) << "all may look";
  EXPECT_TRUE(Cancel("ann").ok());
  ExpectRefused(ResumeJob("bob"), job_);
  EXPECT_TRUE(ResumeJob("olga").ok());
  EXPECT_TRUE(Cancel("olga").ok());
  EXPECT_TRUE(ResumeJob("ann").ok());
}

TEST_F(OwnershipTest, ARunIsChangedByWhoLaunchedItAndByOperators) {
  ExpectRefused(Stop("bob"), run_);
  ExpectRefused(ResumeRun("bob"), run_);
  EXPECT_TRUE(Ask(*runs_, &v1::TrainingService::Stub::GetRun, "bob", run_).ok()) << "all may look";
  for (const std::string who : {"ann", "olga"}) {
    EXPECT_TRUE(Stop(who).ok());
    // The call is admitted and fails because there is nothing to start.
    const grpc::Status resumed = ResumeRun(who);
    EXPECT_EQ(resumed.error_code(), StatusCode::FAILED_PRECONDITION) << resumed.error_message();
    EXPECT_THAT(resumed.error_message(), HasSubstr("repeat the launch with the same request_id"));
  }
}

// An image may hold any program, and it would get the volume with the home.
TEST_F(OwnershipTest, OnlyOperatorsChooseTheImageOfAKubernetesJob) {
  const auto launch = [&](const std::string& who) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    context.AddMetadata("authorization", "Bearer " + tokens_.at(who));
    v1::LaunchRunRequest request;
    request.set_request_id(who);
    request.mutable_spec()->set_dataset_dir((home_ / "dataset").string());
    request.mutable_spec()->mutable_launch()->set_backend(v1::KUBERNETES);
    request.mutable_spec()->mutable_launch()->mutable_kubernetes()->set_image("any");
    v1::Run run;
    return runs_->LaunchRun(&context, request, &run);
  };
  EXPECT_EQ(launch("ann").error_code(), StatusCode::PERMISSION_DENIED);
  EXPECT_NE(launch("olga").error_code(), StatusCode::PERMISSION_DENIED);
}

TEST_F(OwnershipTest, UnknownIdsAreNotFoundForEveryCaller) {
  job_ = "job-000077";
  run_ = "run-000077";
  for (const std::string who : {"ann", "bob", "olga"}) {
    EXPECT_EQ(Cancel(who).error_code(), StatusCode::NOT_FOUND);
    EXPECT_EQ(ResumeJob(who).error_code(), StatusCode::NOT_FOUND);
    EXPECT_EQ(Stop(who).error_code(), StatusCode::NOT_FOUND);
    EXPECT_EQ(ResumeRun(who).error_code(), StatusCode::NOT_FOUND);
  }
}

}  // namespace ownership_test
}  // namespace braid
