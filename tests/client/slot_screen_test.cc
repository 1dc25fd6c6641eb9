#include "client/slot_screen.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <set>
#include <sstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "braid/v1/training.grpc.pb.h"
#include "rpc/interrupt.h"

namespace braid {
namespace slot_screen_test {

using std::chrono::milliseconds;
using testing::HasSubstr;
using testing::Not;

// A service whose runs advance one step per query and end after their last step; the run named
// "fails" fails after its first. The `lost` queries after `lost_after` get no answer.
class ScriptedService final : public v1::TrainingService::Service {
 public:
  grpc::Status LaunchRun(grpc::ServerContext*, const v1::LaunchRunRequest* request,
                         v1::Run* response) override {
    const std::lock_guard lock(mutex_);
    if (deleted.contains(request->request_id())) {
      return {grpc::StatusCode::ALREADY_EXISTS, "request_id belongs to a run that was deleted"};
    }
    v1::Run& run = runs_[request->request_id()];
    if (run.id().empty()) {
      run.set_id(request->request_id());
      *run.mutable_spec() = request->spec();
      run.set_state(v1::RUN_RUNNING);
    }
    *response = run;
    most_at_once_ = std::max(most_at_once_, std::ranges::count_if(runs_, [](const auto& entry) {
                               return entry.second.state() == v1::RUN_RUNNING;
                             }));
    return grpc::Status::OK;
  }
  grpc::Status GetRun(grpc::ServerContext*, const v1::GetRunRequest* request,
                      v1::Run* response) override {
    const std::lock_guard lock(mutex_);
    if (lost_after-- <= 0 && lost-- > 0) return {grpc::StatusCode::UNAVAILABLE, "shutting down"};
    v1::Run& run = runs_.at(request->id());
    run.mutable_latest()->set_step(run.latest().step() + 1);
    run.mutable_latest()->set_loss(4.5);
    if (run.spec().name() == "fails") {
      run.set_state(v1::RUN_FAILED);
      run.set_error("rank 1 ran out of memory");
    } else if (run.latest().step() == run.spec().num_steps()) {
      run.set_state(v1::RUN_SUCCEEDED);
    }
    *response = run;
    return grpc::Status::OK;
  }
  int64_t most_at_once() const { return most_at_once_; }

  std::atomic<int> lost_after = 0, lost = 0;
  std::set<std::string> deleted;  // request ids; not changed while it serves

 private:
  std::mutex mutex_;
  std::map<std::string, v1::Run> runs_;
  int64_t most_at_once_ = 0;
};

TrainingTask TaskOf(const std::string& name, const std::string& host = "") {
  TrainingTask task{.request = {}, .planned_seconds = 10};
  task.request.set_request_id("run-" + name);
  task.request.mutable_spec()->set_name(name);
  task.request.mutable_spec()->set_num_steps(2);
  if (!host.empty()) task.request.mutable_spec()->mutable_launch()->add_hosts()->set_host(host);
  return task;
}

class SlotScreenTest : public testing::Test {
 protected:
  SlotScreenTest() {
    grpc::ServerBuilder builder;
    builder.RegisterService(&service_);
    server_ = builder.BuildAndStart();
  }
  absl::StatusOr<std::vector<v1::Run>> Follow(const SlotPlan& plan,
                                              milliseconds patience = milliseconds(5000)) {
    TrainingClient client(server_->InProcessChannel({}));
    return FollowSlots(client, plan, board_, patience);
  }

  ScriptedService service_;
  std::unique_ptr<grpc::Server> server_;
  std::ostringstream told_;
  ProgressBoard board_{told_, /*terminal=*/false};
};

TEST_F(SlotScreenTest, FollowsAllRunsWithOneRowEach) {
  const auto runs =
      Follow({.tasks = {TaskOf("dense"), TaskOf("moe"), TaskOf("prefix")}, .slots = 2});
  ASSERT_TRUE(runs.ok()) << runs.status();
  ASSERT_EQ(runs->size(), 3);
  EXPECT_EQ(service_.most_at_once(), 2);
  for (const v1::Run& run : *runs) EXPECT_EQ(run.state(), v1::RUN_SUCCEEDED);
  EXPECT_EQ((*runs)[1].spec().name(), "moe");
  for (const char* name : {"dense", "moe", "prefix"}) {
    EXPECT_THAT(told_.str(), HasSubstr(absl::StrCat("run-", name, ": 2 steps, last loss 4.500")));
  }
  EXPECT_THAT(told_.str(), HasSubstr("3 trained"));
  EXPECT_THAT(told_.str(), Not(HasSubstr("failed")));
}

TEST_F(SlotScreenTest, ReportsFailedRunsAndTheirCauses) {
  const auto runs =
      Follow({.tasks = {TaskOf("fails"), TaskOf("dense"), TaskOf("moe")}, .slots = 3});
  ASSERT_TRUE(runs.ok()) << runs.status();
  EXPECT_EQ(runs->front().state(), v1::RUN_FAILED);
  EXPECT_THAT(told_.str(), HasSubstr("run-fails: FAILED rank 1 ran out of memory"));
  EXPECT_THAT(told_.str(), HasSubstr("2 trained, 1 failed"));
}

TEST_F(SlotScreenTest, CountsRunsThatNeverStart) {
  TrainingTask waiting = TaskOf("tuned");
  waiting.after = 0;
  const auto runs = Follow({.tasks = {TaskOf("fails"), TaskOf("moe"), waiting}, .slots = 2});
  ASSERT_TRUE(runs.ok()) << runs.status();
  EXPECT_EQ(runs->back().id(), "");
  EXPECT_THAT(told_.str(), HasSubstr("1 trained, 1 failed, 1 not started"));
}

// Their users cannot choose another request id.
TEST_F(SlotScreenTest, LaunchesDeletedRunsAgain) {
  service_.deleted = {"run-dense", "run-dense-2"};
  for (int repeat = 0; repeat < 2; ++repeat) {
    const auto runs = Follow({.tasks = {TaskOf("dense")}});
    ASSERT_TRUE(runs.ok()) << runs.status();
    EXPECT_EQ(runs->front().id(), "run-dense-3");
    EXPECT_EQ(runs->front().state(), v1::RUN_SUCCEEDED);
  }
}

TEST_F(SlotScreenTest, SlotsTakeRunsOfTheirHostOnly) {
  const auto runs = Follow({.tasks = {TaskOf("dense", "a"), TaskOf("moe", "a")},
                            .slots_of_hosts = {{"a", 1}, {"b", 1}}});
  ASSERT_TRUE(runs.ok()) << runs.status();
  EXPECT_EQ(service_.most_at_once(), 1);
}

TEST_F(SlotScreenTest, WaitsForAnUnavailableService) {
  service_.lost_after = 1;
  service_.lost = 2;
  ProgressBoard screen(told_, /*terminal=*/true);
  TrainingClient client(server_->InProcessChannel({}));
  const SlotPlan plan{.tasks = {TaskOf("dense")}};
  const auto runs = FollowSlots(client, plan, screen, milliseconds(5000));
  ASSERT_TRUE(runs.ok()) << runs.status();
  EXPECT_EQ(runs->front().state(), v1::RUN_SUCCEEDED);
  EXPECT_LE(service_.lost, 0);
  EXPECT_THAT(told_.str(), HasSubstr(kServiceAwayText));
}

TEST_F(SlotScreenTest, FailsWhenTheServiceStaysUnavailable) {
  service_.lost = 1000000;
  const auto runs = Follow({.tasks = {TaskOf("dense")}}, milliseconds(400));
  EXPECT_EQ(runs.status(), absl::UnavailableError("shutting down"));
}

TEST_F(SlotScreenTest, RunsContinueAfterAnInterrupt) {
  CatchInterrupts();
  raise(SIGINT);
  const auto runs = Follow({.tasks = {TaskOf("dense")}});
  ForgetInterrupt();
  EXPECT_EQ(runs.status().code(), absl::StatusCode::kCancelled);
  // A repeated call follows the same runs.
  const auto again = Follow({.tasks = {TaskOf("dense")}});
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->front().latest().step(), 2);
}

}  // namespace slot_screen_test
}  // namespace braid
