// A run that trains while braidd, or its supervisor as well, is killed: it continues, and the next
// braidd restarts its supervisor. Real braidd, braid-supervisor and mpirun with a fake trainer.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <string>
#include <thread>

#include "braid/v1/training.grpc.pb.h"
#include "control/supervision/run_event_log.h"
#include "control/supervision/run_process.h"
#include "control/supervision/subprocess.h"
#include "runs/process_identity.h"
#include "tests/control/control_fixture.h"
#include "tests/server/real_braidd.h"

namespace braid {
namespace reattached_run_test {

namespace fs = std::filesystem;

class ReattachedRunTest : public ControlFixture {
 protected:
  ReattachedRunTest() : braidd_(Install(), root_, {"--services", "training"}) {}
  ~ReattachedRunTest() override {
    braidd_.Kill();
    EndRun();
  }
  void SetUp() override {
    if (!FindProgram("mpirun")) GTEST_SKIP() << "mpirun is not installed";
    ASSERT_TRUE(braidd_.Start());
    stub_ = v1::TrainingService::NewStub(braidd_.Connect());
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

  static void KillRecorded(const fs::path& record) {
    const auto process = ReadProcessRecord(record);
    if (process.ok() && IsAlive(process->identity)) {
      kill(static_cast<pid_t>(process->identity.pid), SIGKILL);
    }
  }
  // Kills all processes of the run at once.
  void EndRun() {
    if (run_dir_.empty()) return;
    const RunDirectory run(run_dir_);
    KillRecorded(run.process());
    KillRecorded(run_dir_ / "attempt.json");
    for (const int64_t pid : RankProcesses(run)) kill(static_cast<pid_t>(pid), SIGKILL);
  }

  // Repeats the call while it is UNAVAILABLE: a connection detects a killed server only when it is
  // used. All these calls are idempotent.
  template <class Request>
  grpc::Status Ask(grpc::Status (v1::TrainingService::Stub::*method)(grpc::ClientContext*,
                                                                     const Request&, v1::Run*),
                   const Request& request, v1::Run* run) {
    const auto deadline = std::chrono::system_clock::now() + std::chrono::seconds(30);
    while (true) {
      grpc::ClientContext context;
      context.set_deadline(deadline);
      context.set_wait_for_ready(true);
      const grpc::Status status = ((*stub_).*method)(&context, request, run);
      if (status.error_code() != grpc::StatusCode::UNAVAILABLE) return status;
      poll(nullptr, 0, 10);
    }
  }
  void Launch() {
    v1::LaunchRunRequest request;
    *request.mutable_spec() = Spec("endless");
    request.set_request_id("mine");
    v1::Run run;
    const grpc::Status status = Ask(&v1::TrainingService::Stub::LaunchRun, request, &run);
    ASSERT_TRUE(status.ok()) << status.error_message();
    id_ = run.id();
    run_dir_ = run.run_dir();
    ASSERT_TRUE(Eventually([&] { return Step() >= 3; }));
  }
  v1::Run Get() {
    v1::GetRunRequest request;
    request.set_id(id_);
    v1::Run run;
    EXPECT_TRUE(Ask(&v1::TrainingService::Stub::GetRun, request, &run).ok());
    return run;
  }
  int64_t Step() const {
    const auto newest = RunDirectory(run_dir_).ReadNewestMetrics();
    return newest ? newest->step() : 0;
  }
  ProcessRecord Supervisor() const {
    return ReadProcessRecord(RunDirectory(run_dir_).process()).value();
  }
  ProcessRecord Mpirun() const { return ReadProcessRecord(run_dir_ / "attempt.json").value(); }
  int64_t NewestEvent() const {
    const auto newest = ReadNewestRunEvent(run_dir_ / "events.jsonl");
    return newest ? newest->number() : 0;
  }
  static double SecondsSince(std::chrono::steady_clock::time_point start) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }

  RealBraidd braidd_;
  std::unique_ptr<v1::TrainingService::Stub> stub_;
  std::string id_;
  fs::path run_dir_;
};

TEST_F(ReattachedRunTest, RunContinuesWithoutBraiddAndTheNextOneFindsIt) {
  Launch();
  const ProcessRecord supervisor = Supervisor(), mpirun = Mpirun();
  braidd_.Kill();
  const int64_t step = Step(), event = NewestEvent();
  ASSERT_TRUE(Eventually([&] { return Step() > step + 5 && NewestEvent() > event + 5; }))
      << "the run needs no service";
  const auto start = std::chrono::steady_clock::now();
  ASSERT_TRUE(braidd_.Start());
  EXPECT_TRUE(Eventually([&] { return Get().state() == v1::RUN_RUNNING; }));
  EXPECT_LT(SecondsSince(start), 5);
  EXPECT_EQ(Supervisor().identity.pid, supervisor.identity.pid);
  EXPECT_EQ(Mpirun().nonce, mpirun.nonce);
  EXPECT_EQ(Get().incidents_size(), 0);

  // From before the kill to after it, without a gap.
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(30));
  v1::WatchRunRequest request;
  request.set_id(id_);
  const int64_t first = std::max<int64_t>(event - 1, 1);
  request.set_after_event(first - 1);
  const auto reader = stub_->WatchRun(&context, request);
  v1::RunEvent next;
  for (int64_t number = first; number < event + 20; ++number) {
    ASSERT_TRUE(reader->Read(&next)) << number << ": " << reader->Finish().error_message();
    ASSERT_EQ(next.number(), number);
  }
  context.TryCancel();
  while (reader->Read(&next)) {
  }
  reader->Finish();

  v1::StopRunRequest stop;
  stop.set_id(id_);
  v1::Run run;
  ASSERT_TRUE(Ask(&v1::TrainingService::Stub::StopRun, stop, &run).ok());
  EXPECT_TRUE(Eventually([&] { return Get().state() == v1::RUN_STOPPED; }));
}

TEST_F(ReattachedRunTest, DeadSupervisorIsReplacedWithinFiveSeconds) {
  Launch();
  const ProcessRecord supervisor = Supervisor(), mpirun = Mpirun();
  braidd_.Kill();
  KillRecorded(RunDirectory(run_dir_).process());
  const int64_t step = Step();
  ASSERT_TRUE(Eventually([&] { return Step() > step + 3; })) << "mpirun continues";
  const auto start = std::chrono::steady_clock::now();
  ASSERT_TRUE(braidd_.Start());
  ASSERT_TRUE(Eventually([&] {
    const ProcessRecord now = Supervisor();
    return now.identity.pid != supervisor.identity.pid && IsAlive(now.identity);
  }));
  EXPECT_LT(SecondsSince(start), 5);
  EXPECT_EQ(Mpirun().nonce, mpirun.nonce) << "the same attempt";
  EXPECT_EQ(Mpirun().identity.pid, mpirun.identity.pid);
  EXPECT_TRUE(IsAlive(mpirun.identity));
  const int64_t event = NewestEvent();
  EXPECT_TRUE(Eventually([&] { return NewestEvent() > event + 3; }));
  EXPECT_TRUE(Eventually([&] { return Get().state() == v1::RUN_RUNNING; }));
}

TEST_F(ReattachedRunTest, AnotherProcessWithTheRecordedIdIsLeftAlone) {
  Launch();
  braidd_.Kill();
  const ProcessRecord supervisor = Supervisor(), mpirun = Mpirun();
  EndRun();
  ASSERT_TRUE(Eventually([&] {
    return !IsAlive(supervisor.identity) && !IsAlive(mpirun.identity) &&
           RankProcesses(RunDirectory(run_dir_)).empty();
  }));
  const pid_t stranger = fork();
  if (stranger == 0) {
    execlp("sleep", "sleep", "120", nullptr);
    _exit(127);
  }
  for (auto [record, path] : {std::pair{supervisor, RunDirectory(run_dir_).process()},
                              std::pair{mpirun, run_dir_ / "attempt.json"}}) {
    record.identity.pid = stranger;
    ASSERT_TRUE(WriteProcessRecord(path, record).ok());
  }
  ASSERT_TRUE(braidd_.Start());
  // It is not mistaken for the run's process: the run is lost, and a new supervisor restarts it.
  EXPECT_TRUE(Eventually([&] {
    const ProcessRecord now = Supervisor();
    return now.identity.pid != stranger && IsAlive(now.identity);
  }));
  v1::StopRunRequest stop;
  stop.set_id(id_);
  v1::Run run;
  EXPECT_TRUE(Ask(&v1::TrainingService::Stub::StopRun, stop, &run).ok());
  EXPECT_TRUE(Eventually([&] { return Get().state() == v1::RUN_STOPPED; }));
  EXPECT_EQ(waitpid(stranger, nullptr, WNOHANG), 0) << "it was not signaled";
  kill(stranger, SIGKILL);
  waitpid(stranger, nullptr, 0);
}

}  // namespace reattached_run_test
}  // namespace braid
