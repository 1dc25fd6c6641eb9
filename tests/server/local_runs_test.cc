// A real braidd with --stop-runs, as in a container: SIGTERM stops its runs with a checkpoint, and
// the next start resumes them from there. Trainer, mpirun and supervisor are real. What a user has
// stopped is tested with a fake service.
#include "server/local_runs.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/atomic_file.h"
#include "base/clock.h"
#include "braid/v1/training.grpc.pb.h"
#include "control/supervision/run_process.h"
#include "rpc/training_client.h"
#include "runs/process_identity.h"
#include "runs/run_directory.h"
#include "runs/run_state.h"
#include "runs/stop_request.h"
#include "tests/program.h"
#include "tests/server/real_braidd.h"
#include "tests/trainer/tiny_run.h"

namespace braid {
namespace local_runs_test {

class LocalRunsTest : public testing::Test {
 protected:
  LocalRunsTest()
      : root_(NewDirectory("local-runs")),
        braidd_(BRAID_BIN_DIR "/braidd", root_,
                {"--services", "training", "--mpirun", BRAID_MPIRUN, "--stop-runs"}) {
    WriteTinyDataset(root_ / "data");
  }
  ~LocalRunsTest() override {
    braidd_.Kill();
    const RunDirectory run(braidd_.home() / "runs/run-000001");
    const auto supervisor = ReadProcessRecord(run.process());
    if (supervisor.ok() && IsAlive(supervisor->identity)) {
      kill(static_cast<pid_t>(supervisor->identity.pid), SIGKILL);
    }
    for (const int64_t pid : RankProcesses(run)) kill(static_cast<pid_t>(pid), SIGKILL);
  }

  // Launches a run that takes longer than the test.
  std::string Launch() {
    v1::LaunchRunRequest request;
    *request.mutable_spec() = TinySpec(root_ / "data", /*num_steps=*/1000000);
    request.mutable_spec()->mutable_checkpoint()->set_every_steps(1000000);
    const auto run = TrainingClient(braidd_.Connect()).LaunchRun(request);
    EXPECT_TRUE(run.ok()) << run.status();
    return run.ok() ? run->id() : "";
  }

  v1::Run Describe(const std::string& id) {
    return TrainingClient(braidd_.Connect()).GetRun(id).value_or(v1::Run());
  }

  // Waits until the run has completed `step`, or has ended.
  bool Passes(const std::string& id, int64_t step) {
    v1::Run run;
    WaitUntil(
        [&] {
          run = Describe(id);
          return HasEnded(run.state()) ||
                 (run.state() == v1::RUN_RUNNING && run.latest().step() > step);
        },
        std::chrono::seconds(120));
    return run.state() == v1::RUN_RUNNING && run.latest().step() > step;
  }

  const std::filesystem::path root_;
  RealBraidd braidd_;
};

TEST_F(LocalRunsTest, StopWithACheckpointAndContinueAtTheNextStart) {
  ASSERT_TRUE(braidd_.Start());
  const std::string id = Launch();
  ASSERT_TRUE(Passes(id, 3)) << Describe(id).DebugString();
  EXPECT_EQ(braidd_.Terminate(), 0);

  const RunDirectory run(braidd_.home() / "runs" / id);
  // The supervisor ends right after it has recorded that the run has stopped.
  EXPECT_TRUE(
      WaitUntil([&] { return !IsAlive(ReadProcessRecord(run.process()).value().identity); }));
  EXPECT_TRUE(RankProcesses(run).empty());
  EXPECT_FALSE(std::filesystem::is_empty(run.root() / "checkpoints"));
  EXPECT_EQ(ReadFile(braidd_.home() / "runs_to_resume").value_or("missing"), id);

  ASSERT_TRUE(braidd_.Start());
  ASSERT_TRUE(
      WaitUntil([&] { return Describe(id).state() == v1::RUN_RUNNING; }, std::chrono::seconds(60)))
      << Describe(id).DebugString();
  const int64_t resumed_at = Describe(id).latest().step();
  EXPECT_GE(resumed_at, 4);
  EXPECT_TRUE(Passes(id, resumed_at + 3));
  EXPECT_EQ(Describe(id).incidents_size(), 0);
  EXPECT_EQ(ReadFile(braidd_.home() / "runs_to_resume").value_or("missing"), "");

  // A run that its user has stopped stays stopped.
  ASSERT_TRUE(TrainingClient(braidd_.Connect()).StopRun(id).ok());
  ASSERT_TRUE(WaitUntil([&] { return Describe(id).state() == v1::RUN_STOPPED; }));
  EXPECT_EQ(braidd_.Terminate(), 0);
  EXPECT_EQ(ReadFile(braidd_.home() / "runs_to_resume").value_or("missing"), "");
}

// A service with one run.
class FakeTraining final : public v1::TrainingService::Service {
 public:
  explicit FakeTraining(v1::Run run) : run_(std::move(run)) {}

  void SetState(v1::RunState state) {
    const std::lock_guard lock(mutex_);
    run_.set_state(state);
  }
  int num_resumed() {
    const std::lock_guard lock(mutex_);
    return num_resumed_;
  }

  grpc::Status GetRun(grpc::ServerContext*, const v1::GetRunRequest*, v1::Run* response) override {
    const std::lock_guard lock(mutex_);
    *response = run_;
    return grpc::Status::OK;
  }
  grpc::Status ListRuns(grpc::ServerContext*, const v1::ListRunsRequest*,
                        v1::ListRunsResponse* response) override {
    const std::lock_guard lock(mutex_);
    *response->add_runs() = run_;
    return grpc::Status::OK;
  }
  grpc::Status StopRun(grpc::ServerContext*, const v1::StopRunRequest*,
                       v1::Run* response) override {
    const std::lock_guard lock(mutex_);
    run_.set_state(v1::RUN_STOPPED);
    *response = run_;
    return grpc::Status::OK;
  }
  grpc::Status ResumeRun(grpc::ServerContext*, const v1::ResumeRunRequest*,
                         v1::Run* response) override {
    const std::lock_guard lock(mutex_);
    if (refuses != grpc::StatusCode::OK) return {refuses, "mpirun is not in PATH"};
    ++num_resumed_;
    run_.set_state(v1::RUN_STARTING);
    *response = run_;
    return grpc::Status::OK;
  }

  std::atomic<grpc::StatusCode> refuses = grpc::StatusCode::OK;

 private:
  std::mutex mutex_;
  v1::Run run_;
  int num_resumed_ = 0;
};

// A running run whose supervisor is this process.
class RunsOfUsersTest : public testing::Test {
 protected:
  RunsOfUsersTest() : home_(NewDirectory("runs-of-users")), run_(home_ / "runs/run-000001") {
    std::filesystem::create_directories(run_.root());
    const ProcessRecord self{IdentifyProcess(getpid()).value(), "nonce", UnixTime()};
    EXPECT_TRUE(WriteProcessRecord(run_.process(), self).ok());
    v1::Run run;
    run.set_id("run-000001");
    run.set_run_dir(run_.root().string());
    run.set_state(v1::RUN_RUNNING);
    service_ = std::make_unique<FakeTraining>(run);
    grpc::ServerBuilder builder;
    builder.RegisterService(service_.get());
    server_ = builder.BuildAndStart();
  }
  ~RunsOfUsersTest() override { server_->Shutdown(); }

  std::unique_ptr<LocalRuns> Open(
      std::chrono::milliseconds resume_limit = std::chrono::minutes(5)) {
    return std::make_unique<LocalRuns>(
        server_->InProcessChannel(grpc::ChannelArguments()), home_,
        [this](const std::string& what) { log_ += what + "\n"; }, resume_limit);
  }
  std::string ToResume() const { return ReadFile(home_ / "runs_to_resume").value_or("missing"); }

  const std::filesystem::path home_;
  const RunDirectory run_;
  std::string log_;  // complete once LocalRuns is destroyed
  std::unique_ptr<FakeTraining> service_;
  std::unique_ptr<grpc::Server> server_;
};

TEST_F(RunsOfUsersTest, StopInProgressIsNotUndone) {
  Open()->Stop(std::chrono::seconds(5));
  EXPECT_EQ(ToResume(), "run-000001");

  std::filesystem::remove(home_ / "runs_to_resume");
  service_->SetState(v1::RUN_RUNNING);
  ASSERT_TRUE(RecordStopRequest(run_, UnixTime()).ok());
  Open()->Stop(std::chrono::seconds(5));
  EXPECT_EQ(ToResume(), "");
}

// The earlier process was killed before it could stop the run, which its user stops later.
TEST_F(RunsOfUsersTest, RunThatContinuesIsNotResumedLater) {
  ASSERT_TRUE(WriteFileAtomically(home_ / "runs_to_resume", "run-000001").ok());
  const std::unique_ptr<LocalRuns> runs = Open();
  EXPECT_TRUE(WaitUntil([&] { return ToResume().empty(); }));
  service_->SetState(v1::RUN_STOPPED);
  runs->Stop(std::chrono::seconds(5));
  EXPECT_EQ(service_->num_resumed(), 0);
}

TEST_F(RunsOfUsersTest, RunThatIsStillStoppingIsResumedAtItsEnd) {
  ASSERT_TRUE(RecordStopRequest(run_, UnixTime()).ok());
  ASSERT_TRUE(WriteFileAtomically(home_ / "runs_to_resume", "run-000001").ok());
  const std::unique_ptr<LocalRuns> runs = Open();
  EXPECT_FALSE(WaitUntil([&] { return ToResume().empty(); }, std::chrono::milliseconds(300)));
  service_->SetState(v1::RUN_STOPPED);
  EXPECT_TRUE(WaitUntil([&] { return ToResume().empty(); }));
  EXPECT_EQ(service_->num_resumed(), 1);
}

// A full disk or a busy database may pass.
TEST_F(RunsOfUsersTest, RunThatCannotBeResumedYetIsTriedAgain) {
  for (const auto code : {grpc::StatusCode::RESOURCE_EXHAUSTED, grpc::StatusCode::UNAVAILABLE,
                          grpc::StatusCode::DEADLINE_EXCEEDED}) {
    ASSERT_TRUE(WriteFileAtomically(home_ / "runs_to_resume", "run-000001").ok());
    service_->SetState(v1::RUN_STOPPED);
    service_->refuses = code;
    const int before = service_->num_resumed();
    const std::unique_ptr<LocalRuns> runs = Open();
    EXPECT_FALSE(WaitUntil([&] { return ToResume().empty(); }, std::chrono::milliseconds(300)));
    service_->refuses = grpc::StatusCode::OK;
    EXPECT_TRUE(WaitUntil([&] { return ToResume().empty(); }));
    EXPECT_EQ(service_->num_resumed(), before + 1) << code;
  }
}

TEST_F(RunsOfUsersTest, RunThatCannotBeResumedIsReportedAndLeftToItsUser) {
  ASSERT_TRUE(WriteFileAtomically(home_ / "runs_to_resume", "run-000001").ok());
  service_->SetState(v1::RUN_STOPPED);
  service_->refuses = grpc::StatusCode::FAILED_PRECONDITION;
  std::unique_ptr<LocalRuns> runs = Open(std::chrono::milliseconds(600));
  EXPECT_TRUE(WaitUntil([&] { return ToResume().empty(); }));
  runs->Stop(std::chrono::seconds(5));
  EXPECT_EQ(ToResume(), "");
  runs.reset();
  EXPECT_EQ(log_,
            "cannot resume run-000001: mpirun is not in PATH; resume it with 'braid resume "
            "run-000001'\n");
}

}  // namespace local_runs_test
}  // namespace braid
