#include "rpc/grpc_call.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "braid/v1/analysis.grpc.pb.h"
#include "braid/v1/pipeline.grpc.pb.h"
#include "rpc/analysis_client.h"
#include "rpc/connection_error.h"
#include "rpc/generation_client.h"
#include "rpc/grpc_call_identity.h"
#include "rpc/pipeline_client.h"
#include "rpc/request_id.h"
#include "tests/base/status_matchers.h"

namespace braid {
namespace grpc_call_test {

using Stub = v1::PipelineService::Stub;

// A service whose first watch ends as if the server had become unavailable, after `silence` without
// an event; from the `returns_at`th on, a watch has one event and ends. `lost_as`: the code of the
// others.
class RestartedService final : public v1::PipelineService::Service {
 public:
  RestartedService(std::chrono::milliseconds silence, int returns_at,
                   grpc::StatusCode lost_as = grpc::StatusCode::UNAVAILABLE)
      : silence_(silence), returns_at_(returns_at), lost_as_(lost_as) {}

  grpc::Status WatchJob(grpc::ServerContext*, const v1::WatchJobRequest* request,
                        grpc::ServerWriter<v1::JobEvent>* writer) override {
    const int call = ++num_calls_;
    if (call == 1) std::this_thread::sleep_for(silence_);
    if (call < returns_at_) return {lost_as_, "shutting down"};
    v1::JobEvent event;
    event.set_number(request->after_event() + 1);
    writer->Write(event);
    return grpc::Status::OK;
  }
  int num_calls() const { return num_calls_; }

 private:
  const std::chrono::milliseconds silence_;
  const int returns_at_;
  const grpc::StatusCode lost_as_;
  std::atomic<int> num_calls_{0};
};

absl::Status Watch(RestartedService* service, std::chrono::milliseconds reconnect_for,
                   std::vector<int64_t>* numbers, const std::function<void()>& on_lost = nullptr) {
  grpc::ServerBuilder builder;
  builder.RegisterService(service);
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  const auto channel =
      grpc::CreateChannel(absl::StrCat("127.0.0.1:", port), grpc::InsecureChannelCredentials());
  const auto stub = v1::PipelineService::NewStub(channel);
  const absl::Status ended = WatchEvents<v1::JobEvent>(
      *channel, *stub, &Stub::WatchJob, WithId<v1::WatchJobRequest>("job-000001"),
      std::function<bool(const v1::JobEvent&)>([&](const v1::JobEvent& event) {
        numbers->push_back(event.number());
        return true;
      }),
      reconnect_for, kStreamDeadline, on_lost);
  server->Shutdown();
  return ended;
}

TEST(WatchEventsTest, ReconnectsAfterALongSilence) {
  RestartedService service(std::chrono::milliseconds(1500), 3);
  std::vector<int64_t> numbers;
  const absl::Status ended = Watch(&service, std::chrono::milliseconds(1000), &numbers);
  EXPECT_TRUE(ended.ok()) << ended;
  EXPECT_EQ(numbers, std::vector<int64_t>({1}));
  EXPECT_EQ(service.num_calls(), 3);
}

TEST(WatchEventsTest, FailsWhenTheServerStaysUnavailableAndReportsItOnce) {
  RestartedService service(std::chrono::milliseconds(0), 1000);
  std::vector<int64_t> numbers;
  int num_reports = 0;
  EXPECT_TRUE(absl::IsUnavailable(
      Watch(&service, std::chrono::milliseconds(1000), &numbers, [&] { ++num_reports; })));
  EXPECT_GE(service.num_calls(), 3);
  EXPECT_EQ(num_reports, 1);
}

// As after the server was stopped for a while.
TEST(WatchEventsTest, ResumesAfterACallThatExceededItsDeadline) {
  RestartedService service(std::chrono::milliseconds(0), 2, grpc::StatusCode::DEADLINE_EXCEEDED);
  std::vector<int64_t> numbers;
  int num_reports = 0;
  const absl::Status ended =
      Watch(&service, std::chrono::seconds(60), &numbers, [&] { ++num_reports; });
  EXPECT_TRUE(ended.ok()) << ended;
  EXPECT_EQ(numbers, std::vector<int64_t>({1}));
  EXPECT_EQ(num_reports, 0);
}

// A connection that fails the test when a call is made.
std::shared_ptr<grpc::Channel> NoCalls() {
  return grpc::CreateChannel("127.0.0.1:1", grpc::InsecureChannelCredentials());
}

TEST(CallTest, NamesTheFieldWithTextThatIsNotUtf8InsteadOfSendingIt) {
  PipelineClient pipeline(NoCalls());
  v1::SubmitCorpusRequest submit;
  submit.mutable_spec()->add_paths("/data/caf\u00e9/a.jsonl");
  submit.mutable_spec()->add_paths("/data/caf\xe9/b.jsonl");
  EXPECT_FAILS(pipeline.SubmitCorpus(submit).status(), absl::StatusCode::kInvalidArgument,
               "paths: got \"/data/caf\\xe9/b.jsonl\", expected UTF-8; rename the directory");
  AnalysisClient analysis(NoCalls());
  v1::ReportRequest report;
  report.add_runs("/data/caf\xe9");
  EXPECT_FAILS(analysis.Report(report).status(), absl::StatusCode::kInvalidArgument, "runs: got");
  GenerationClient generation(NoCalls());
  v1::GenerateRequest generate;
  generate.set_model("/data/caf\xe9");
  EXPECT_FAILS(generation.Generate(generate, [](const v1::GenerateEvent&) { return true; }),
               absl::StatusCode::kInvalidArgument, "model: got");
}

// A service whose watches send one event each, the third of which ends them.
class SilentService final : public v1::PipelineService::Service {
 public:
  grpc::Status WatchJob(grpc::ServerContext* context, const v1::WatchJobRequest* request,
                        grpc::ServerWriter<v1::JobEvent>* writer) override {
    v1::JobEvent event;
    event.set_number(request->after_event() + 1);
    writer->Write(event);
    while (event.number() < 3 && !context->IsCancelled()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return grpc::Status::OK;
  }
};

TEST(WatchEventsTest, LastsLongerThanACall) {
  SilentService service;
  grpc::ServerBuilder builder;
  builder.RegisterService(&service);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  const auto channel = server->InProcessChannel(grpc::ChannelArguments());
  const auto stub = v1::PipelineService::NewStub(channel);
  std::vector<int64_t> numbers;
  const absl::Status ended = WatchEvents<v1::JobEvent>(
      *channel, *stub, &Stub::WatchJob, WithId<v1::WatchJobRequest>("job-000001"),
      std::function<bool(const v1::JobEvent&)>([&](const v1::JobEvent& event) {
        numbers.push_back(event.number());
        return true;
      }),
      kReconnectFor, std::chrono::seconds(1));
  EXPECT_TRUE(ended.ok()) << ended;
  EXPECT_EQ(numbers, std::vector<int64_t>({1, 2, 3}));
  server->Shutdown();
}

// Services that record how long their clients wait for an answer.
class PatienceOfClients {
 public:
  grpc::Status Note(const grpc::ServerContext& context) {
    const std::chrono::duration<double> left =
        context.deadline() - std::chrono::system_clock::now();
    seconds.push_back(left.count());
    return grpc::Status::OK;
  }
  std::vector<double> seconds;
};

class WaitedForPipeline final : public v1::PipelineService::Service, public PatienceOfClients {
 public:
  grpc::Status GetJob(grpc::ServerContext* context, const v1::GetJobRequest*, v1::Job*) override {
    return Note(*context);
  }
  grpc::Status ExplainInstances(grpc::ServerContext* context, const v1::ExplainInstancesRequest*,
                                v1::ExplainInstancesResponse*) override {
    return Note(*context);
  }
  grpc::Status ExplainDocument(grpc::ServerContext* context, const v1::ExplainDocumentRequest*,
                               v1::ExplainDocumentResponse*) override {
    return Note(*context);
  }
};

class WaitedForAnalysis final : public v1::AnalysisService::Service, public PatienceOfClients {
 public:
  grpc::Status Report(grpc::ServerContext* context, const v1::ReportRequest*,
                      v1::ReportResponse*) override {
    return Note(*context);
  }
};

TEST(LongCallTest, ReportsAndExplanationsOfLargeFilesHaveMoreThanAMinute) {
  WaitedForPipeline pipeline;
  WaitedForAnalysis analysis;
  grpc::ServerBuilder builder;
  builder.RegisterService(&pipeline);
  builder.RegisterService(&analysis);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  PipelineClient client(server->InProcessChannel({}));
  EXPECT_TRUE(client.GetJob("job-000001").ok());
  EXPECT_TRUE(client.ExplainInstances({}).ok());
  EXPECT_TRUE(client.ExplainDocument({}).ok());
  EXPECT_TRUE(AnalysisClient(server->InProcessChannel({})).Report({}).ok());
  EXPECT_THAT(pipeline.seconds,
              testing::ElementsAre(testing::Le(61), testing::Gt(3600), testing::Gt(3600)));
  EXPECT_THAT(analysis.seconds, testing::ElementsAre(testing::Gt(3600)));
  server->Shutdown();
}

// A service that answers a call as braidd does, with its id, and another as if it had been killed.
class RefusingService final : public v1::PipelineService::Service {
 public:
  grpc::Status GetJob(grpc::ServerContext* context, const v1::GetJobRequest*, v1::Job*) override {
    const auto id = context->client_metadata().find(kRequestIdKey);
    context->AddTrailingMetadata(kRequestIdKey, {id->second.data(), id->second.size()});
    return {grpc::StatusCode::UNAVAILABLE, "the server is shutting down"};
  }
  grpc::Status SubmitCorpus(grpc::ServerContext*, const v1::SubmitCorpusRequest*,
                            v1::Job*) override {
    return {grpc::StatusCode::UNAVAILABLE, "Socket closed"};
  }
  // Ends as a call whose deadline passes at the gate of braidd, which adds its id.
  grpc::Status CancelJob(grpc::ServerContext* context, const v1::CancelJobRequest*,
                         v1::Job*) override {
    context->AddTrailingMetadata(kRequestIdKey, "0123456789abcdef");
    return {grpc::StatusCode::DEADLINE_EXCEEDED, "Deadline Exceeded"};
  }
};

TEST(CallIdentityTest, NamesTheServerWhereItDidNotAnswerAndTheRequestWhereItDid) {
  RefusingService service;
  grpc::ServerBuilder builder;
  builder.RegisterService(&service);
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  const std::string address = absl::StrCat("127.0.0.1:", port);
  PipelineClient client(grpc::experimental::CreateCustomChannelWithInterceptors(
      address, grpc::InsecureChannelCredentials(), {}, CallIdentity("", address)));
  const absl::Status answered = client.GetJob("job-000001").status();
  EXPECT_TRUE(absl::IsUnavailable(answered));
  EXPECT_THAT(std::string(answered.message()),
              testing::MatchesRegex("the server is shutting down \\(request [0-9a-f]{16}\\)"));
  const absl::Status cut = client.SubmitCorpus({}).status();
  EXPECT_EQ(cut, absl::UnavailableError("braidd at " + address + " went away"));
  EXPECT_EQ(client.CancelJob("job-000001").status(),
            absl::DeadlineExceededError("braidd at " + address +
                                        " did not answer in time; check it with: braid --server " +
                                        address + " health"));
  EXPECT_EQ(PipelineClient(server->InProcessChannel({})).CancelJob("job-000001").status(),
            absl::DeadlineExceededError("the service in this process did not answer within 60 s; "
                                        "repeat the command"));

  server->Shutdown();
  server.reset();
  const absl::Status gone = client.GetJob("job-000001").status();
  EXPECT_TRUE(absl::IsUnavailable(gone)) << gone;
  EXPECT_THAT(std::string(gone.message()),
              testing::MatchesRegex("braidd at " + address + " went away(: connection refused)?"));
}

TEST(UnansweredCallErrorTest, HasNoInternals) {
  const auto text = [](const absl::Status& status) {
    return std::string(UnansweredCallError("head:7000", status).message());
  };
  EXPECT_EQ(text(absl::DeadlineExceededError("Deadline Exceeded")),
            "braidd at head:7000 did not answer in time; check it with: braid --server head:7000 "
            "health");
  EXPECT_EQ(text(absl::CancelledError("CANCELLED")),
            "the call to braidd at head:7000 was canceled");
  EXPECT_EQ(text(absl::UnavailableError("keepalive watchdog timeout")),
            "braidd at head:7000 went away");
  EXPECT_EQ(text(absl::ResourceExhaustedError("Sent message larger than max")),
            "Sent message larger than max");
}

}  // namespace grpc_call_test
}  // namespace braid
