// A real braidd that is killed while runs are launched: each acknowledged run exists once, repeated
// requests return the same run, and every run was started exactly once. Also a braidd that is shut
// down while runs are watched. The trainer is a fake.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <signal.h>

#include <atomic>
#include <filesystem>
#include <limits>
#include <map>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/atomic_file.h"
#include "braid/v1/training.grpc.pb.h"
#include "control/supervision/run_process.h"
#include "rpc/training_client.h"
#include "runs/process_identity.h"
#include "tests/control/control_fixture.h"
#include "tests/server/real_braidd.h"

namespace braid {
namespace killed_launch_test {

namespace fs = std::filesystem;

int CountOf(const std::string& text, const std::string& what) {
  int count = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++count;
  return count;
}

class KilledLaunchTest : public ControlFixture {
 protected:
  KilledLaunchTest()
      : braidd_(Install(), root_,
                {"--services", "training", "--quota-runs", "0", "--quota-ranks", "0", "--mpirun",
                 (root_ / "mpirun").string()}) {}
  ~KilledLaunchTest() override {
    braidd_.Kill();
    for (const auto& entry : fs::directory_iterator(root_ / "home/runs")) {
      const RunDirectory run(entry.path());
      const auto supervisor = ReadProcessRecord(run.process());
      if (supervisor.ok() && IsAlive(supervisor->identity)) {
        kill(static_cast<pid_t>(supervisor->identity.pid), SIGKILL);
      }
      for (const int64_t pid : RankProcesses(run)) kill(static_cast<pid_t>(pid), SIGKILL);
    }
  }

  // braidd looks for its trainer in its own folder: the fake one.
  fs::path Install() {
    const fs::path bin = root_ / "bin";
    fs::create_directories(bin);
    fs::copy_file(BRAID_BIN_DIR "/braidd", bin / "braidd");
    fs::copy_file(BRAID_BIN_DIR "/braid-supervisor", bin / "braid-supervisor");
    fs::copy_file(BRAID_FAKE_TRAINER, bin / "braid-trainer");
    return bin / "braidd";
  }

  absl::StatusOr<std::string> Launch(v1::TrainingService::Stub& stub, const std::string& request_id,
                                     const std::string& name = "quick") {
    v1::LaunchRunRequest request;
    *request.mutable_spec() = Spec(name);
    request.mutable_spec()->mutable_supervision()->set_max_restarts(0);
    request.set_request_id(request_id);
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    v1::Run run;
    const grpc::Status status = stub.LaunchRun(&context, request, &run);
    if (status.ok()) return run.id();
    return absl::UnavailableError(status.error_message());
  }

  // Launches runs until a call fails.
  void LaunchUntilItDies(v1::TrainingService::Stub& stub, const std::string& prefix) {
    for (int i = 0;; ++i) {
      const std::string request_id = absl::StrCat(prefix, "-", i);
      const absl::StatusOr<std::string> id = Launch(stub, request_id);
      std::lock_guard lock(mutex_);
      if (!id.ok()) {
        unknown_.insert(request_id);
        return;
      }
      acknowledged_[request_id] = *id;
    }
  }
  size_t NumAcknowledged() {
    std::lock_guard lock(mutex_);
    return acknowledged_.size();
  }

  std::string File(const std::string& id, const std::string& name) const {
    return ReadFile(root_ / "home/runs" / id / name).value_or("");
  }
  // Kills the service when `more` launches are acknowledged and others are in progress.
  void LaunchAndKill(int round, size_t more) {
    constexpr int kInFlight = 4;
    ASSERT_TRUE(braidd_.Start());
    const auto stub = v1::TrainingService::NewStub(braidd_.Connect());
    const size_t enough = NumAcknowledged() + more;
    std::vector<std::thread> threads;
    for (int t = 0; t < kInFlight; ++t) {
      threads.emplace_back([&, t] { LaunchUntilItDies(*stub, absl::StrCat(round, "-", t)); });
    }
    const bool reached = Eventually([&] { return NumAcknowledged() >= enough; });
    braidd_.Kill();
    for (std::thread& thread : threads) thread.join();
    EXPECT_TRUE(reached);
  }

  RealBraidd braidd_;
  std::mutex mutex_;
  std::map<std::string, std::string> acknowledged_;  // request id -> run
  std::set<std::string> unknown_;                    // no answer came
};

TEST_F(KilledLaunchTest, AcknowledgedLaunchesAreStartedExactlyOnce) {
  std::mt19937 random(7);
  for (int round = 0; round < 4; ++round) LaunchAndKill(round, 2 + random() % 6);

  ASSERT_TRUE(braidd_.Start());
  TrainingClient client(braidd_.Connect());
  const auto stub = v1::TrainingService::NewStub(braidd_.Connect());
  std::multiset<std::string> listed;
  const v1::ListRunsResponse list = client.ListRuns().value();
  for (const v1::Run& run : list.runs()) listed.insert(run.id());
  std::set<std::string> runs;
  for (const auto& [request_id, id] : acknowledged_) {
    EXPECT_EQ(listed.count(id), 1u) << request_id;
    EXPECT_EQ(Launch(*stub, request_id).value(), id);
    EXPECT_TRUE(runs.insert(id).second) << "two requests share " << id;
  }
  // Requests without an answer are repeated.
  for (const std::string& request_id : unknown_) {
    const absl::StatusOr<std::string> id = Launch(*stub, request_id);
    ASSERT_TRUE(id.ok()) << id.status();
    EXPECT_TRUE(runs.insert(*id).second) << "two requests share " << *id;
  }
  EXPECT_EQ(client.ListRuns()->runs_size(), std::ssize(runs)) << "and there are no others";
  for (const std::string& id : runs) {
    EXPECT_TRUE(client.WatchRun(id, [](const v1::RunEvent&) { return true; }).ok());
    const v1::Run run = client.GetRun(id).value();
    EXPECT_EQ(run.state(), v1::RUN_SUCCEEDED)
        << id << ": " << run.error() << File(id, "supervisor.log") << File(id, "events.jsonl")
        << File(id, "trainer.log") << File(id, "process.json") << run.created_at();
    EXPECT_EQ(run.attempts(), 1) << id;
    EXPECT_EQ(run.latest().step(), 10) << id;
    EXPECT_EQ(CountOf(File(id, "trainer.log"), "training quick"), 1) << File(id, "trainer.log");
    EXPECT_EQ(CountOf(File(id, "events.jsonl"), "RUN_SUCCEEDED"), 1) << File(id, "events.jsonl");
  }
}

// A server is replaced by a newer one without effect on watchers.
TEST_F(KilledLaunchTest, WatchersOfADrainedServerContinueWithoutAGap) {
  ASSERT_TRUE(braidd_.Start());
  const auto stub = v1::TrainingService::NewStub(braidd_.Connect());
  const absl::StatusOr<std::string> id = Launch(*stub, "mine", "endless");
  ASSERT_TRUE(id.ok()) << id.status();
  constexpr int kWatchers = 3;
  std::atomic<int64_t> enough{std::numeric_limits<int64_t>::max()}, slowest{0};
  std::vector<std::thread> watchers;
  for (int w = 0; w < kWatchers; ++w) {
    watchers.emplace_back([&, w] {
      TrainingClient client(braidd_.Connect());
      int64_t number = 0;
      const absl::Status status = client.WatchRun(*id, [&](const v1::RunEvent& event) {
        EXPECT_EQ(event.number(), ++number);
        if (w == 0) slowest = number;
        return number < enough;
      });
      EXPECT_TRUE(status.ok()) << status;
      EXPECT_GE(number, enough);
    });
  }
  EXPECT_TRUE(Eventually([&] { return slowest > 5; }));
  // The status that other clients receive.
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(30));
  v1::WatchRunRequest request;
  request.set_id(*id);
  const auto reader = stub->WatchRun(&context, request);
  reader->WaitForInitialMetadata();
  std::thread terminator([&] { EXPECT_EQ(braidd_.Terminate(), 0); });
  v1::RunEvent event;
  while (reader->Read(&event)) {
  }
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
  terminator.join();
  const int64_t reached = slowest;
  EXPECT_TRUE(braidd_.Start());
  EXPECT_TRUE(Eventually([&] { return slowest > reached + 20; }));
  enough = slowest + 10;
  for (std::thread& watcher : watchers) watcher.join();
  EXPECT_TRUE(TrainingClient(braidd_.Connect()).StopRun(*id).ok());
}

}  // namespace killed_launch_test
}  // namespace braid
