// Calls through the gate: messages of admitted calls arrive unchanged, and each call is attributed
// to its own caller.
#include <gmock/gmock.h>
#include <grpc/grpc.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <algorithm>
#include <condition_variable>
#include <future>
#include <mutex>
#include <thread>
#include <vector>

#include "braid/v1/embedding.grpc.pb.h"
#include "braid/v1/pipeline.grpc.pb.h"
#include "rpc/grpc_caller.h"
#include "rpc/request_id.h"
#include "server/access/grpc_gate.h"
#include "server/access/request_limits.h"
#include "server/access/token_file.h"
#include "tests/base/scratch_directory.h"
#include "tests/base/status_matchers.h"
#include "tests/server/access/observed_services.h"

namespace braid {
namespace gate_test {

using grpc::StatusCode;
using testing::HasSubstr;

constexpr int kFewCalls = 20;

class GateTest : public ::testing::Test {
 protected:
  // Never shut down: when its last user ends, gRPC waits up to 10 s for closing connections.
  static void SetUpTestSuite() { grpc_init(); }

  explicit GateTest(CallLimits limits = {}) {
    grpc::ServerBuilder inner;
    inner.RegisterService(&pipeline_);
    inner.RegisterService(&embedding_);
    inner.SetMaxReceiveMessageSize(-1);
    inner_ = inner.BuildAndStart();
    grpc::ChannelArguments arguments;
    arguments.SetMaxReceiveMessageSize(-1);
    gate_ = std::make_unique<Gate>(
        GateOptions{.authenticator = std::make_shared<Authenticator>(home_.path(), false),
                    .check = [](const google::protobuf::Message& request,
                                const auto&) { return CheckLimits(request); },
                    .observers = {records_},
                    .limits = limits,
                    .refusal_delay = std::chrono::milliseconds(0)},
        inner_->InProcessChannel(arguments));
    grpc::ServerBuilder outer;
    outer.RegisterCallbackGenericService(gate_.get());
    int port = 0;
    outer.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    outer_ = outer.BuildAndStart();
    channel_ = grpc::CreateChannel("127.0.0.1:" + std::to_string(port),
                                   grpc::InsecureChannelCredentials());
    stub_ = v1::PipelineService::NewStub(channel_);
  }
  ~GateTest() override {
    Release();
    outer_->Shutdown(std::chrono::system_clock::now());
    outer_.reset();
    gate_.reset();
    inner_->Shutdown(std::chrono::system_clock::now());
  }

  void Release() {
    const std::lock_guard lock(pipeline_.mutex);
    pipeline_.released = true;
    pipeline_.changed.notify_all();
  }
  static void SetDeadline(grpc::ClientContext* context) {
    context->set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(30));
  }
  grpc::Status GetJob(const std::string& token, const std::string& id, v1::Job* job,
                      const std::string& request_id = "", std::string* returned_id = nullptr) {
    grpc::ClientContext context;
    SetDeadline(&context);
    if (!token.empty()) context.AddMetadata("authorization", "Bearer " + token);
    if (!request_id.empty()) context.AddMetadata(kRequestIdKey, request_id);
    // Metadata with which a client might try to claim another identity.
    context.AddMetadata("braid-caller", "operator:root");
    context.AddMetadata("braid-principal", "root");
    v1::GetJobRequest request;
    request.set_id(id);
    const grpc::Status status = stub_->GetJob(&context, request, job);
    const auto found = context.GetServerTrailingMetadata().find(kRequestIdKey);
    if (returned_id != nullptr && found != context.GetServerTrailingMetadata().end()) {
      *returned_id = std::string(found->second.data(), found->second.size());
    }
    return status;
  }
  std::string Token(const std::string& name, Role role) {
    return CreateToken(home_.path(), name, role, 0, "").value().token;
  }

  ScratchDirectory home_;
  SeeingPipeline pipeline_;
  EchoEmbedding embedding_;
  std::shared_ptr<KeptRecords> records_ = std::make_shared<KeptRecords>();
  std::unique_ptr<grpc::Server> inner_, outer_;
  std::unique_ptr<Gate> gate_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::PipelineService::Stub> stub_;
};

TEST_F(GateTest, CallersOnOneConnectionAreIdentifiedSeparately) {
  const std::string ann = Token("ann", Role::kSubmitter), bob = Token("bob", Role::kViewer),
                    op = Token("op", Role::kOperator);
  std::vector<std::jthread> callers;
  for (const auto& [token, name, may] :
       std::vector<std::tuple<std::string, std::string, std::string>>{
           {ann, "ann", "may"}, {bob, "bob", "may not"}, {op, "op", "may"}, {"", "local", "may"}}) {
    callers.emplace_back([this, token, name, may] {
      for (int i = 0; i < 200; ++i) {
        v1::Job job;
        const grpc::Status status = GetJob(token, "job-1", &job);
        ASSERT_TRUE(status.ok()) << status.error_message();
        ASSERT_EQ(job.principal(), name);
        ASSERT_EQ(job.error(), may);
      }
    });
  }
}

TEST_F(GateTest, ServicesWithoutAGateHaveNoPrincipal) {
  grpc::ClientContext context;
  context.AddMetadata("braid-caller", "operator:root");
  v1::Job job;
  const auto direct = v1::PipelineService::NewStub(inner_->InProcessChannel({}));
  ASSERT_TRUE(direct->GetJob(&context, {}, &job).ok());
  EXPECT_EQ(job.principal(), "local");
}

TEST_F(GateTest, RefusedRequestsReachNoService) {
  v1::Job job;
  const grpc::Status status = GetJob("", std::string(5000, 'x'), &job);
  EXPECT_EQ(status.error_code(), StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("id: got 5000 bytes, expected at most 4096"));
  EXPECT_EQ(GetJob("", "\xff\xfe", &job).error_code(), StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(GetJob("wrong", "job-1", &job).error_code(), StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(pipeline_.calls, 0);
}

TEST_F(GateTest, RequestsOfWatchesAreSmall) {
  grpc::ClientContext context;
  SetDeadline(&context);
  v1::WatchJobRequest request;
  // An unknown field.
  request.GetReflection()->MutableUnknownFields(&request)->AddLengthDelimited(
      1000, std::string(100'000, 'x'));
  auto watch = stub_->WatchJob(&context, request);
  v1::JobEvent event;
  EXPECT_FALSE(watch->Read(&event));
  EXPECT_EQ(watch->Finish().error_code(), StatusCode::INVALID_ARGUMENT);
}

TEST_F(GateTest, MessagesBeyondTheLimitAreRefused) {
  v1::Job job;
  EXPECT_EQ(GetJob("", std::string(5 << 20, 'x'), &job).error_code(),
            StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(pipeline_.calls, 0);
}

TEST_F(GateTest, RequestIdsAreReturnedAndRecorded) {
  v1::Job job;
  std::string id;
  EXPECT_TRUE(GetJob(Token("ann", Role::kViewer), "job-1", &job, "my-id.1", &id).ok());
  EXPECT_EQ(id, "my-id.1");
  const CallRecord record = records_->WaitFor(id);
  EXPECT_EQ(record.principal, "ann");
  EXPECT_EQ(record.method, "/braid.v1.PipelineService/GetJob");
  EXPECT_EQ(record.code, absl::StatusCode::kOk);
  EXPECT_THAT(record.peer, testing::StartsWith("ipv4:127.0.0.1:"));
  EXPECT_GT(record.seconds, 0);
  // An id that would break a log line is replaced.
  EXPECT_EQ(GetJob("wrong", "job-1", &job, "a \"b\"", &id).error_code(),
            StatusCode::UNAUTHENTICATED);
  EXPECT_TRUE(IsRequestId(id)) << id;
  EXPECT_EQ(records_->WaitFor(id).refusal, Refusal::kBadToken);
}

TEST_F(GateTest, StreamsInBothDirectionsArriveInOrder) {
  const auto embedding = v1::EmbeddingService::NewStub(channel_);
  grpc::ClientContext context;
  SetDeadline(&context);
  auto stream = embedding->Embed(&context);
  constexpr int kBatches = 500;
  std::jthread writer([&] {
    for (int i = 0; i < kBatches; ++i) {
      v1::EmbedRequest request;
      request.set_batch(i);
      request.add_texts(std::string(static_cast<size_t>(i % 50 == 0 ? 1'000'000 : i), 'x'));
      ASSERT_TRUE(stream->Write(request));
    }
    stream->WritesDone();
  });
  v1::EmbedResponse response;
  for (int i = 0; i < kBatches; ++i) {
    ASSERT_TRUE(stream->Read(&response));
    ASSERT_EQ(response.batch(), i);
    ASSERT_EQ(response.values(0), i % 50 == 0 ? 1'000'000 : i);
  }
  EXPECT_FALSE(stream->Read(&response));
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(GateTest, AServiceMayEndAStreamBeforeTheClient) {
  const auto embedding = v1::EmbeddingService::NewStub(channel_);
  grpc::ClientContext context;
  SetDeadline(&context);
  auto stream = embedding->Embed(&context);
  stream->WaitForInitialMetadata();
  EXPECT_EQ(context.GetServerInitialMetadata().count("braid-embedder"), 1U);
  v1::EmbedRequest request;
  request.set_batch(-1);
  ASSERT_TRUE(stream->Write(request));
  v1::EmbedResponse response;
  EXPECT_FALSE(stream->Read(&response));
  const grpc::Status status = stream->Finish();
  EXPECT_EQ(status.error_code(), StatusCode::ABORTED);
  EXPECT_EQ(status.error_message(), "enough");
}

TEST_F(GateTest, AWatcherThatDoesNotReadBlocksTheService) {
  grpc::ClientContext context;
  SetDeadline(&context);
  auto watch = stub_->WatchJob(&context, {});
  v1::JobEvent event;
  ASSERT_TRUE(watch->Read(&event));
  constexpr int64_t kMost = 10'000;  // some 10 MB of HTTP/2 windows
  const int64_t seen = pipeline_.WaitUntilBlocked(kMost);
  EXPECT_LT(seen, kMost);
  for (int64_t number = 2; number <= 2 * seen; ++number) {
    ASSERT_TRUE(watch->Read(&event));
    ASSERT_EQ(event.number(), number);
  }
  context.TryCancel();
}

class SmallGateTest : public GateTest {
 protected:
  SmallGateTest() : GateTest({.named = kFewCalls}) {}
};

TEST_F(SmallGateTest, CallsBeyondTheLimitAreRefusedUntilOthersEnd) {
  std::vector<std::unique_ptr<grpc::ClientContext>> contexts;
  std::vector<std::unique_ptr<grpc::ClientReader<v1::JobEvent>>> watches;
  v1::WatchJobRequest slow;
  slow.set_id("slow");
  for (int i = 0; i < kFewCalls; ++i) {
    SetDeadline(contexts.emplace_back(std::make_unique<grpc::ClientContext>()).get());
    watches.push_back(stub_->WatchJob(contexts.back().get(), slow));
    v1::JobEvent event;
    ASSERT_TRUE(watches.back()->Read(&event));
  }
  grpc::ClientContext refused, admitted;
  SetDeadline(&refused);
  SetDeadline(&admitted);
  v1::JobEvent event;
  auto watch = stub_->WatchJob(&refused, slow);
  EXPECT_FALSE(watch->Read(&event));
  EXPECT_EQ(watch->Finish().error_code(), StatusCode::RESOURCE_EXHAUSTED);
  v1::Job job;
  EXPECT_TRUE(GetJob("", "job-1", &job).ok()) << "another kind of call";
  for (auto& context : contexts) context->TryCancel();
  // The last of the calls may still hold its place, but not all of them.
  EXPECT_TRUE(records_->WaitUntilAllHaveEnded());
  watch = stub_->WatchJob(&admitted, slow);
  EXPECT_TRUE(watch->Read(&event));
  admitted.TryCancel();
}

TEST_F(GateTest, ADrainEndsWatchesAtOnceAndWaitsForTheRest) {
  grpc::ClientContext watch_context, call_context;
  SetDeadline(&watch_context);
  SetDeadline(&call_context);
  v1::WatchJobRequest slow;
  slow.set_id("slow");
  auto watch = stub_->WatchJob(&watch_context, slow);
  v1::JobEvent event;
  ASSERT_TRUE(watch->Read(&event));
  v1::Job job;
  auto call =
      std::async(std::launch::async, [&] { return stub_->CancelJob(&call_context, {}, &job); });
  {
    std::unique_lock lock(pipeline_.mutex);
    pipeline_.changed.wait(lock, [this] { return pipeline_.waiting == 1; });
  }
  auto drain = std::async(std::launch::async, [&] { gate_->Drain(std::chrono::seconds(20)); });
  while (watch->Read(&event)) {
  }
  const grpc::Status ended = watch->Finish();
  EXPECT_EQ(ended.error_code(), StatusCode::UNAVAILABLE);
  EXPECT_THAT(ended.error_message(), HasSubstr("shutting down"));
  v1::Job other;
  EXPECT_EQ(GetJob("", "job-1", &other).error_code(), StatusCode::UNAVAILABLE);
  EXPECT_EQ(drain.wait_for(std::chrono::milliseconds(50)), std::future_status::timeout);
  Release();
  EXPECT_TRUE(call.get().ok());
  EXPECT_EQ(job.id(), "finished");
  EXPECT_EQ(drain.wait_for(std::chrono::seconds(20)), std::future_status::ready);
}

// The drain looks for watches between the admission of this one and its entry among the calls.
TEST_F(GateTest, AWatchThatBeginsDuringADrainEndsWithIt) {
  records_->AtNextStart([this] { gate_->Drain(std::chrono::milliseconds(0)); });
  grpc::ClientContext context;
  SetDeadline(&context);
  v1::WatchJobRequest slow;
  slow.set_id("slow");
  auto watch = stub_->WatchJob(&context, slow);
  v1::JobEvent event;
  while (watch->Read(&event)) {
  }
  const grpc::Status ended = watch->Finish();
  EXPECT_EQ(ended.error_code(), StatusCode::UNAVAILABLE);
  EXPECT_THAT(ended.error_message(), HasSubstr("watch again to continue"));
}

TEST_F(GateTest, HeadersArriveBeforeTheFirstResponse) {
  grpc::ClientContext context;
  SetDeadline(&context);
  v1::WatchJobRequest silent;
  silent.set_id("silent");
  auto watch = stub_->WatchJob(&context, silent);
  watch->WaitForInitialMetadata();  // returns at the deadline if there is none
  context.TryCancel();
  EXPECT_EQ(watch->Finish().error_code(), StatusCode::CANCELLED);
}

TEST_F(GateTest, CallsOfClientsThatDisconnectEnd) {
  for (int i = 0; i < 200; ++i) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::microseconds(i * 50));
    auto watch = stub_->WatchJob(&context, {});
    v1::JobEvent event;
    for (int k = 1; k <= i % 7 && watch->Read(&event); ++k) ASSERT_EQ(event.number(), k);
  }
  EXPECT_GT(records_->num_started(), 0) << "no deadline was long enough for a call to start";
  EXPECT_TRUE(records_->WaitUntilAllHaveEnded());
  v1::Job job;
  EXPECT_TRUE(GetJob("", "job-1", &job).ok());
}

}  // namespace gate_test
}  // namespace braid
