#include "control/generation_service.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <signal.h>

#include <atomic>
#include <cstdlib>
#include <thread>
#include <vector>

#include "base/directory_use.h"
#include "control/serving_child.h"
#include "runs/run_directory.h"
#include "tests/control/control_fixture.h"

namespace braid {
namespace generation_service_test {

using std::chrono::milliseconds;
using testing::HasSubstr;

struct Answer {
  grpc::Status status;
  std::string text;
  std::vector<int> routed;  // before which tokens
  v1::GenerateEvent last;
};

class GenerationServiceTest : public ControlFixture {
 protected:
  // A request in progress, which is cancelled when the object is destroyed.
  struct Call {
    grpc::ClientContext context;
    std::unique_ptr<grpc::ClientReader<v1::GenerateEvent>> reader;
    ~Call() { context.TryCancel(); }

    // Waits for the first event.
    bool HasBegun() {
      v1::GenerateEvent event;
      return reader->Read(&event);
    }
    Answer Finish() {
      Answer answer;
      while (reader->Read(&answer.last)) {
        answer.text += answer.last.text();
        for (const auto& mixture : answer.last.routing()) {
          answer.routed.push_back(mixture.before_token());
        }
      }
      answer.status = reader->Finish();
      return answer;
    }
  };

  GenerationServiceTest() {
    for (const char* name : {"one", "two", "three"}) NewRun(name);
  }

  std::string NewRun(const std::string& name) {
    const auto run = RunStore::Open(root_ / "home").value()->Create("", "spec", 1).value();
    EXPECT_TRUE(RunDirectory(run.run_dir).WriteSpec(Spec(name)).ok());
    return run.id;
  }

  void Start(const ModelServerOptions& serving = {}) {
    ControlOptions options = Options();
    options.serving = serving;
    service_ = MakeGenerationService(options).value();
    grpc::ServerBuilder builder;
    builder.RegisterService(service_.get());
    server_ = builder.BuildAndStart();
    stub_ = v1::GenerationService::NewStub(server_->InProcessChannel(grpc::ChannelArguments()));
  }

  std::unique_ptr<Call> Begin(const std::string& prompt, const std::string& run = "run-000001") {
    auto call = std::make_unique<Call>();
    call->context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(30));
    v1::GenerateRequest request;
    request.set_model(run);
    request.set_prompt(prompt);
    call->reader = stub_->Generate(&call->context, request);
    return call;
  }
  Answer Ask(const std::string& prompt, const std::string& run = "run-000001") {
    return Begin(prompt, run)->Finish();
  }

  v1::DescribeServingResponse Describe() {
    grpc::ClientContext context;
    v1::DescribeServingResponse response;
    EXPECT_TRUE(stub_->DescribeServing(&context, {}, &response).ok());
    return response;
  }
  bool EventuallyActiveAndWaiting(int active, int waiting) {
    return Eventually([&] {
      const auto now = Describe();
      return now.active() == active && now.waiting() == waiting;
    });
  }

  std::unique_ptr<grpc::Service> service_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<v1::GenerationService::Stub> stub_;
};

TEST_F(GenerationServiceTest, OneChildAnswersAllRequestsForAModel) {
  Start();
  const Answer answer = Ask("hello");
  EXPECT_TRUE(answer.status.ok()) << answer.status.error_message();
  EXPECT_EQ(answer.text, "hello world");
  EXPECT_TRUE(answer.last.done());
  EXPECT_EQ(Ask("pid").text, Ask("pid").text);
  const auto described = Describe();
  ASSERT_EQ(described.models_size(), 1);
  EXPECT_EQ(described.models(0).num_parameters(), 42);
  EXPECT_EQ(described.models(0).requests_done(), 3);
  EXPECT_EQ(described.requests_done(), 3);
  EXPECT_EQ(described.tokens_sampled(), 4);
}

TEST_F(GenerationServiceTest, ErrorsAreThoseOfTheRequestOrTheModel) {
  Start();
  const Answer refused = Ask("refuse");
  EXPECT_EQ(refused.status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(refused.status.error_message(), "prompt: refused");
  const Answer unknown = Ask("hello", "run-000099");
  EXPECT_EQ(unknown.status.error_code(), grpc::StatusCode::NOT_FOUND);
  const Answer empty = Ask("hello", NewRun("failing"));
  EXPECT_EQ(empty.status.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_THAT(empty.status.error_message(), HasSubstr("holds no checkpoint yet"));
  const Answer killed = Ask("hello", NewRun("crashing"));  // while it loads
  EXPECT_EQ(killed.status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_THAT(killed.status.error_message(), HasSubstr("imaginary"));
  EXPECT_THAT(killed.status.error_message(), HasSubstr("(probably out of memory)"));
  EXPECT_EQ(Ask("hello").text, "hello world");
}

TEST_F(GenerationServiceTest, DifferentPathsToAModelShareOneChild) {
  Start();
  const std::filesystem::path run =
      RunStore::Open(root_ / "home").value()->Get("run-000001")->run_dir;
  std::filesystem::create_symlink(run, root_ / "link");
  const std::string pid = Ask("pid").text;
  for (const std::string& path : {run.string(), run.string() + "/", (root_ / "link").string(),
                                  (root_ / "home/../link/").string()}) {
    EXPECT_EQ(Ask("pid", path).text, pid) << path;
  }
  EXPECT_EQ(Describe().models_size(), 1);
}

// A child that reads nothing costs no memory for requests that were cancelled in the meantime.
TEST_F(GenerationServiceTest, CancelledUnsentCommandsAreRemoved) {
  const std::filesystem::path run =
      RunStore::Open(root_ / "home").value()->Get("run-000001")->run_dir;
  std::atomic<int> reports = 0;
  const auto child = ServingChild::Start({.trainer = BRAID_FAKE_TRAINER, .model = run},
                                         {.on_report = [&](const v1::ServingReport&) { ++reports; },
                                          .on_end = [](const absl::Status&) {}})
                         .value();
  v1::ServingCommand command;
  command.set_id(1);
  command.mutable_generate()->set_prompt("deaf");
  child->Send(command);
  ASSERT_TRUE(Eventually([&] { return reports == 2; }));
  for (uint64_t id = 2; id < 100; ++id) {
    command.set_id(id);
    command.mutable_generate()->set_prompt(std::string(1 << 20, 'x'));
    child->Send(command);
    // The first command is being written.
    if (id == 2) {
      ASSERT_TRUE(Eventually([&] { return child->unsent_bytes() > 0; }));
    }
    v1::ServingCommand cancel;
    cancel.set_id(id);
    cancel.set_cancel(true);
    child->Send(cancel);
  }
  EXPECT_LT(child->unsent_bytes(), size_t{2} << 20);
}

// The cancellation may come before or after the child has read the command, and also between poll
// and write.
TEST_F(GenerationServiceTest, CommandsCancelledAtOnceHaveNoEffectOnOthers) {
  const std::filesystem::path run =
      RunStore::Open(root_ / "home").value()->Get("run-000001")->run_dir;
  std::atomic<int> ended = 0;
  std::atomic<bool> failed = false;
  const auto on_report = [&](const v1::ServingReport& report) { ended += report.event().done(); };
  const auto child =
      ServingChild::Start({.trainer = BRAID_FAKE_TRAINER, .model = run},
                          {.on_report = on_report,
                           .on_end = [&](const absl::Status& status) { failed = !status.ok(); }})
          .value();
  v1::ServingCommand command, cancel;
  command.mutable_generate()->set_prompt("endless");
  cancel.set_cancel(true);
  for (uint64_t id = 1; id < 20000; ++id) {
    command.set_id(id);
    cancel.set_id(id);
    child->Send(command);
    child->Send(cancel);
  }
  command.mutable_generate()->set_prompt("hello");
  child->Send(command);
  EXPECT_TRUE(Eventually([&] { return ended == 1; }));
  EXPECT_FALSE(failed);
}

TEST_F(GenerationServiceTest, RequestsBeyondTheQueueAreRefusedAtOnce) {
  Start({.max_active = 1, .max_waiting = 2});
  const auto active = Begin("endless");
  ASSERT_TRUE(active->HasBegun());
  auto first = Begin("hello"), second = Begin("hello");
  ASSERT_TRUE(EventuallyActiveAndWaiting(1, 2));
  const Answer refused = Ask("hello");
  EXPECT_EQ(refused.status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(refused.status.error_message(), HasSubstr("--generate-queue"));
  // A waiting request that is cancelled makes room for another.
  first->context.TryCancel();
  EXPECT_EQ(first->Finish().status.error_code(), grpc::StatusCode::CANCELLED);
  ASSERT_TRUE(EventuallyActiveAndWaiting(1, 1));
  const auto third = Begin("hello");
  ASSERT_TRUE(EventuallyActiveAndWaiting(1, 2));
  active->context.TryCancel();
  EXPECT_EQ(second->Finish().text, "hello world");
  EXPECT_EQ(third->Finish().text, "hello world");
  const auto described = Describe();
  EXPECT_EQ(described.requests_refused(), 1);
  EXPECT_EQ(described.requests_cancelled(), 2);
}

TEST_F(GenerationServiceTest, DeadlineFreesThePlace) {
  Start({.max_active = 1});
  const auto call = Begin("endless");
  ASSERT_TRUE(call->HasBegun());
  auto late = std::make_unique<Call>();
  late->context.set_deadline(std::chrono::system_clock::now() + milliseconds(50));
  v1::GenerateRequest request;
  request.set_model("run-000001");
  late->reader = stub_->Generate(&late->context, request);
  EXPECT_EQ(late->Finish().status.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_TRUE(EventuallyActiveAndWaiting(1, 0));
}

TEST_F(GenerationServiceTest, DeadChildFailsItsRequestsAndIsRestarted) {
  Start();
  const auto other = Begin("endless");
  ASSERT_TRUE(other->HasBegun());
  const std::string pid = Ask("pid").text;
  const Answer crashed = Ask("crash");
  EXPECT_EQ(crashed.status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_THAT(crashed.status.error_message(), HasSubstr("signal 9"));
  EXPECT_THAT(crashed.status.error_message(), HasSubstr("imaginary"));
  EXPECT_EQ(other->Finish().status.error_code(), grpc::StatusCode::UNAVAILABLE);
  const std::string next = Ask("pid").text;
  EXPECT_NE(next, pid);
  EXPECT_FALSE(next.empty());
  // A child that is killed while idle has no effect on requests.
  kill(std::atoi(next.c_str()), SIGKILL);
  ASSERT_TRUE(Eventually([&] { return Describe().models_size() == 0; }));
  EXPECT_EQ(Ask("hello").text, "hello world");
}

TEST_F(GenerationServiceTest, ModelThatIsIdleLongestIsUnloaded) {
  Start({.max_models = 2});
  const std::string one = Ask("pid", "run-000001").text;
  const std::string two = Ask("pid", "run-000002").text;
  EXPECT_EQ(Ask("pid", "run-000001").text, one);
  Ask("hello", "run-000003");
  EXPECT_EQ(Describe().models_size(), 2);
  EXPECT_EQ(Ask("pid", "run-000001").text, one);
  EXPECT_NE(Ask("pid", "run-000002").text, two);
  EXPECT_NE(kill(std::atoi(two.c_str()), 0), 0);
}

TEST_F(GenerationServiceTest, BusyModelsStayLoadedAndTheNextOneWaits) {
  Start({.max_models = 1});
  const auto busy = Begin("endless");
  ASSERT_TRUE(busy->HasBegun());
  const auto other = Begin("hello", "run-000002");
  ASSERT_TRUE(EventuallyActiveAndWaiting(1, 1));
  busy->context.TryCancel();
  EXPECT_EQ(other->Finish().text, "hello world");
  EXPECT_EQ(Describe().models_size(), 1);
}

TEST_F(GenerationServiceTest, IdleModelIsUnloaded) {
  Start({.idle = milliseconds(20)});
  const int pid = std::atoi(Ask("pid").text.c_str());
  EXPECT_TRUE(Eventually([&] { return Describe().models_size() == 0 && kill(pid, 0) != 0; }));
}

TEST_F(GenerationServiceTest, RunWhoseAverageIsServedCannotBeDeleted) {
  Start();
  const std::filesystem::path home = root_ / "home";
  const auto may_delete = [&](const std::string& run) {
    return DirectoryUse::TryReserve(home, home / "runs" / run)->has_value();
  };
  ASSERT_TRUE(may_delete("run-000001"));
  EXPECT_EQ(Ask("hello", "run-000001@ema").text, "hello world");
  EXPECT_FALSE(may_delete("run-000001"));
  EXPECT_TRUE(may_delete("run-000002"));
}

TEST_F(GenerationServiceTest, NewRequestsGetTheNewestCheckpoint) {
  const auto checkpoints = RunStore::Open(root_ / "home").value()->Get("run-000001")->run_dir /
                           std::filesystem::path("checkpoints");
  std::filesystem::create_directories(checkpoints / "step-00000010");
  Start();
  EXPECT_THAT(Ask("which").text, HasSubstr("step-00000010"));
  const auto running = Begin("endless");
  ASSERT_TRUE(running->HasBegun());
  std::filesystem::create_directories(checkpoints / "step-00000020.1.tmp");
  EXPECT_THAT(Ask("which").text, HasSubstr("step-00000010"));
  std::filesystem::rename(checkpoints / "step-00000020.1.tmp", checkpoints / "step-00000020");
  EXPECT_THAT(Ask("which").text, HasSubstr("step-00000020"));
  // A request in progress keeps its checkpoint.
  EXPECT_EQ(Describe().models_size(), 2);
  running->context.TryCancel();
  EXPECT_TRUE(Eventually([&] { return Describe().models_size() == 1; }));
  EXPECT_THAT(Ask("which").text, HasSubstr("step-00000020"));
}

TEST_F(GenerationServiceTest, ClientThatDoesNotReadBlocksNoOtherAndLosesNothing) {
  Start({.max_active = 1});
  const auto slow = Begin("flood");
  ASSERT_TRUE(Eventually([&] { return Describe().requests_done() == 1; }));
  EXPECT_EQ(Ask("hello").text, "hello world");
  const Answer late = slow->Finish();
  EXPECT_TRUE(late.status.ok());
  EXPECT_EQ(late.text.size(), 20000 * 5 + 6);
  EXPECT_EQ(late.last.num_tokens(), 20001);
  ASSERT_EQ(late.routed.size(), 20001);
  for (int i = 0; i < 20001; ++i) ASSERT_EQ(late.routed[i], i + 1);
}

TEST_F(GenerationServiceTest, ManyConcurrentRequestsAllEnd) {
  Start({.max_models = 2, .max_active = 3, .max_waiting = 64});
  std::atomic<int> good = 0;
  std::vector<std::thread> clients;
  for (int i = 0; i < 24; ++i) {
    clients.emplace_back([&, i] {
      const std::string run = "run-00000" + std::to_string(1 + i % 3);
      if (i % 4 == 3) {
        Begin("endless", run)->HasBegun();  // and gives it up
      } else {
        good += Ask("hello", run).text == "hello world";
      }
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(good, 18);
  EXPECT_TRUE(EventuallyActiveAndWaiting(0, 0));
}

TEST_F(GenerationServiceTest, TheChildrenEndWithTheService) {
  Start();
  const int pid = std::atoi(Ask("pid").text.c_str());
  const auto call = Begin("endless");
  ASSERT_TRUE(call->HasBegun());
  server_->Shutdown(std::chrono::system_clock::now() + milliseconds(50));
  EXPECT_EQ(call->Finish().status.ok(), false);
  server_.reset();
  service_.reset();
  EXPECT_NE(kill(pid, 0), 0);
}

}  // namespace generation_service_test
}  // namespace braid
