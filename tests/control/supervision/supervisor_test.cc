// The supervisor with a fake trainer; supervised_training_test.cc has the real one.
#include "control/supervision/supervisor.h"

#include <gmock/gmock.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <nlohmann/json.hpp>

#include "base/atomic_file.h"
#include "base/clock.h"
#include "control/run_status.h"
#include "control/supervision/child_program.h"
#include "control/supervision/reattach.h"
#include "control/supervision/run_event_log.h"
#include "control/supervision/run_process.h"
#include "control/supervision/subprocess.h"
#include "runs/process_identity.h"
#include "runs/run_state.h"
#include "tests/control/control_fixture.h"

namespace braid {
namespace supervisor_test {

using testing::ElementsAre;
using testing::HasSubstr;

class SupervisorTest : public ControlFixture {
 protected:
  ~SupervisorTest() override {
    for (const pid_t pid : supervisors_) {
      kill(pid, SIGKILL);
      waitpid(pid, nullptr, 0);
    }
    for (int tries = 0; tries < 100 && !RankProcesses(run_).empty(); ++tries) {
      for (const int64_t pid : RankProcesses(run_)) kill(static_cast<pid_t>(pid), SIGKILL);
      poll(nullptr, 0, 10);
    }
  }

  // The name selects the behavior of the trainer; see fake_trainer.cc.
  void Launch(const std::string& name, int max_restarts = 2) {
    v1::RunSpec spec = Spec(name);
    spec.set_world_size(1);
    spec.set_num_steps(10);
    spec.mutable_supervision()->set_hang_seconds(2);
    spec.mutable_supervision()->set_backoff_seconds(0.05);
    spec.mutable_supervision()->set_max_restarts(max_restarts);
    ASSERT_TRUE(run_.WriteSpec(spec).ok());
    const nlohmann::json launch = {{"arguments",
                                    {(root_ / "mpirun").string(), "-n", "1", BRAID_FAKE_TRAINER,
                                     "train", run_.root().string()}},
                                   {"variables", {{"PATH", "/usr/bin:/bin"}}}};
    Write(run_.launch(), launch.dump());
  }

  void LengthenPause(double seconds) {
    v1::RunSpec spec = run_.ReadSpec().value();
    spec.mutable_supervision()->set_backoff_seconds(seconds);
    ASSERT_TRUE(run_.WriteSpec(spec).ok());
  }
  static ProcessRecord DeadRecord() {
    ProcessRecord record{IdentifyProcess(getpid()).value(), "dead", UnixTime()};
    record.identity.start_time += 1;
    return record;
  }

  pid_t Start(std::vector<std::string> options = {}) {
    std::vector<std::string> arguments = {BRAID_SUPERVISOR};
    arguments.insert(arguments.end(), options.begin(), options.end());
    arguments.push_back(run_.root().string());
    auto child = ChildProgram::Fork({.program = arguments.front(),
                                     .arguments = arguments,
                                     .environment = TrainerEnvironment(),
                                     .new_session = true});
    EXPECT_TRUE(child.ok() && child->Execute().ok());
    supervisors_.push_back(child->pid());
    return child->pid();
  }

  // Returns the exit code; -1 when the process does not exit.
  int Wait(pid_t pid) {
    int status = 0;
    if (!Eventually([&] { return waitpid(pid, &status, WNOHANG) == pid; })) return -1;
    std::erase(supervisors_, pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  void Kill(pid_t pid) {
    kill(pid, SIGKILL);
    Wait(pid);
  }

  std::vector<v1::RunEvent> Events() { return ReadRunEvents(run_.events(), 0).value(); }
  std::vector<v1::RunState> States() {
    std::vector<v1::RunState> states;
    for (const v1::RunEvent& event : Events()) {
      if (states.empty() || states.back() != event.state()) states.push_back(event.state());
    }
    return states;
  }
  std::vector<int64_t> Steps() {
    std::vector<int64_t> steps;
    for (const v1::RunEvent& event : Events()) {
      if (event.has_metrics()) steps.push_back(event.metrics().step());
    }
    return steps;
  }
  int64_t NewestTold() {
    const std::vector<int64_t> steps = Steps();
    return steps.empty() ? 0 : steps.back();
  }
  // Expects each step once, in order, and event numbers without gaps.
  void ExpectGapless() {
    int64_t number = 0, step = 0;
    for (const v1::RunEvent& event : Events()) {
      EXPECT_EQ(event.number(), ++number);
      EXPECT_GT(event.time(), 0);
      if (event.has_metrics()) {
        EXPECT_EQ(event.metrics().step(), ++step);
      }
    }
  }
  v1::Run Describe() { return DescribeRun({"run-000001", run_.root(), UnixTime()}, UnixTime()); }
  bool Reaches(v1::RunState state) {
    return Eventually([&] { return Describe().state() == state; });
  }
  bool Trains(int64_t step) {
    return Eventually([&] { return Describe().latest().step() >= step; });
  }
  ProcessIdentity Mpirun() { return ReadProcessRecord(run_.attempt()).value().identity; }

  const RunDirectory run_{root_ / "run"};
  std::vector<pid_t> supervisors_;
};

TEST_F(SupervisorTest, RecordsARunFromLaunchToEnd) {
  Launch("quick");
  EXPECT_EQ(Wait(Start()), kExitDone);
  EXPECT_THAT(States(), ElementsAre(v1::RUN_STARTING, v1::RUN_RUNNING, v1::RUN_SUCCEEDED));
  EXPECT_THAT(Steps(), ElementsAre(1, 2, 3, 4, 5, 6, 7, 8, 9, 10));
  ExpectGapless();
  const v1::Run run = Describe();
  EXPECT_EQ(run.state(), v1::RUN_SUCCEEDED);
  EXPECT_EQ(run.attempts(), 1);
  EXPECT_EQ(run.last_event(), std::ssize(Events()));
  EXPECT_GT(run.effective_training_time(), 0);
  EXPECT_GT(run.finished_at(), 0);
}

TEST_F(SupervisorTest, CrashesAreRestartedUpToTheLimitAndThenListed) {
  Launch("crashing");
  EXPECT_EQ(Wait(Start()), kExitFailed);
  const v1::Run run = Describe();
  EXPECT_EQ(run.state(), v1::RUN_FAILED);
  EXPECT_EQ(run.attempts(), 3);
  ASSERT_EQ(run.incidents_size(), 3);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(run.incidents(i).kind(), v1::TRAINER_DIED);
    EXPECT_EQ(run.incidents(i).attempt(), i + 1);
    EXPECT_THAT(run.incidents(i).cause(), HasSubstr("out of <imaginary> memory"));
    EXPECT_DOUBLE_EQ(run.incidents(i).restart_after_seconds(), i == 2 ? 0 : 0.05 * (1 << i));
  }
  EXPECT_THAT(run.error(), HasSubstr("2 restarts from step 0 without a new checkpoint"));
  EXPECT_THAT(run.error(), HasSubstr("attempts 1, 2 ended in the same way"));
  ExpectGapless();
}

TEST_F(SupervisorTest, PermanentFailureIsNotRetried) {
  Launch("failing");
  EXPECT_EQ(Wait(Start()), kExitFailed);
  EXPECT_EQ(Describe().attempts(), 1);
  EXPECT_EQ(Describe().error(), "loss is NaN at step 3");
  EXPECT_EQ(Describe().incidents(0).kind(), v1::TRAINER_FAILED);
}

TEST_F(SupervisorTest, MissingMpirunFailsAtOnce) {
  Launch("quick");
  Write(run_.launch(), R"({"arguments": ["/missing/mpirun"], "variables": {}})");
  EXPECT_EQ(Wait(Start()), kExitFailed);
  EXPECT_EQ(Describe().incidents(0).kind(), v1::LAUNCH_FAILED);
  EXPECT_THAT(Describe().error(), HasSubstr("/missing/mpirun"));
}

TEST_F(SupervisorTest, KilledMpirunIsRestartedAndStepsAreRecordedOnce) {
  Launch("endless");
  const pid_t supervisor = Start();
  ASSERT_TRUE(Trains(20));
  const ProcessIdentity first = Mpirun();
  kill(static_cast<pid_t>(first.pid), SIGKILL);
  ASSERT_TRUE(Eventually([&] { return Mpirun().pid != first.pid; }));
  const int64_t step = Describe().latest().step();
  ASSERT_TRUE(Trains(step + 10));
  EXPECT_EQ(Describe().attempts(), 2);
  kill(supervisor, SIGTERM);
  EXPECT_EQ(Wait(supervisor), kExitStopped);
  EXPECT_EQ(Describe().state(), v1::RUN_STOPPED);
  ExpectGapless();
}

TEST_F(SupervisorTest, SilentRankIsNamedAndTheRunRestarted) {
  Launch("endless");
  Start();
  ASSERT_TRUE(Trains(5));
  const ProcessIdentity first = Mpirun();
  kill(static_cast<pid_t>(first.pid), SIGSTOP);
  ASSERT_TRUE(Eventually([&] { return Describe().incidents_size() == 1; }));
  const v1::RunIncident incident = Describe().incidents(0);
  EXPECT_EQ(incident.kind(), v1::RANK_HUNG);
  ASSERT_EQ(incident.ranks_size(), 1);
  EXPECT_EQ(incident.ranks(0).pid(), first.pid);
  EXPECT_THAT(incident.cause(), HasSubstr("no heartbeat from rank 0 on "));
  EXPECT_FALSE(IsAlive(first));
  ASSERT_TRUE(Eventually([&] { return Describe().attempts() == 2; }));
  ASSERT_TRUE(Reaches(v1::RUN_RUNNING));
}

TEST_F(SupervisorTest, StopRequestInAFileStopsTheRun) {
  Launch("endless");
  const pid_t supervisor = Start();
  ASSERT_TRUE(Trains(2));
  ASSERT_TRUE(RecordStopRequest(run_, UnixTime()).ok());
  EXPECT_EQ(Wait(supervisor), kExitStopped);
  EXPECT_EQ(Describe().state(), v1::RUN_STOPPED);
  // The next launch trains: the request to stop was for the last one.
  Start();
  ASSERT_TRUE(Eventually([&] { return Describe().attempts() == 2; }));
  ASSERT_TRUE(Reaches(v1::RUN_RUNNING));
}

TEST_F(SupervisorTest, TrainerThatIgnoresSignalsIsKilled) {
  Launch("stubborn");
  const pid_t supervisor = Start({"--stop-grace", "0.3", "--kill-grace", "0.3"});
  ASSERT_TRUE(Trains(2));
  const ProcessIdentity mpirun = Mpirun();
  ASSERT_TRUE(RecordStopRequest(run_, UnixTime()).ok());
  EXPECT_EQ(Wait(supervisor), kExitStopped);
  EXPECT_FALSE(IsAlive(mpirun));
  EXPECT_EQ(Describe().state(), v1::RUN_STOPPED);
}

TEST_F(SupervisorTest, StopDuringThePauseStartsNothing) {
  Launch("crashing");
  LengthenPause(60);
  const pid_t supervisor = Start();
  ASSERT_TRUE(Reaches(v1::RUN_RESTARTING));
  ASSERT_TRUE(RecordStopRequest(run_, UnixTime()).ok());
  EXPECT_EQ(Wait(supervisor), kExitStopped);
  EXPECT_EQ(Describe().attempts(), 1);
}

TEST_F(SupervisorTest, SecondSupervisorIsRefused) {
  Launch("endless");
  Start();
  ASSERT_TRUE(Trains(1));
  EXPECT_EQ(Wait(Start()), 4);
  EXPECT_FALSE(EnsureSupervised(BRAID_SUPERVISOR, run_).value());
}

// mpirun and the numbering of events continue.
TEST_F(SupervisorTest, NewSupervisorReattachesToRunningMpirun) {
  Launch("endless");
  pid_t supervisor = Start();
  ASSERT_TRUE(Trains(5));
  const ProcessIdentity mpirun = Mpirun();
  for (int round = 0; round < 3; ++round) {
    kill(supervisor, SIGKILL);
    ASSERT_TRUE(Eventually([&] { return EnsureSupervised(BRAID_SUPERVISOR, run_).value(); }));
    const int64_t step = run_.ReadNewestMetrics()->step();
    ASSERT_TRUE(Eventually([&] { return NewestTold() > step; })) << "its steps are recorded";
    supervisor = static_cast<pid_t>(ReadProcessRecord(run_.process())->identity.pid);
  }
  EXPECT_EQ(Mpirun().pid, mpirun.pid);
  EXPECT_TRUE(IsAlive(mpirun));
  EXPECT_EQ(Describe().attempts(), 1);
  ASSERT_TRUE(RecordStopRequest(run_, UnixTime()).ok());
  ASSERT_TRUE(Reaches(v1::RUN_STOPPED));
  ExpectGapless();
  EXPECT_FALSE(EnsureSupervised(BRAID_SUPERVISOR, run_).value()) << "it has ended";
}

TEST_F(SupervisorTest, LostRunIsRestarted) {
  Launch("endless");
  const pid_t supervisor = Start();
  ASSERT_TRUE(Trains(5));
  Kill(supervisor);
  kill(static_cast<pid_t>(Mpirun().pid), SIGKILL);
  ASSERT_TRUE(Eventually([&] { return !HasLiveProcess(run_, UnixTime()); }));
  ASSERT_TRUE(EnsureSupervised(BRAID_SUPERVISOR, run_).value());
  ASSERT_TRUE(Eventually([&] { return Describe().attempts() == 2; }));
  EXPECT_EQ(Describe().incidents(0).kind(), v1::LOST);
  ASSERT_TRUE(Reaches(v1::RUN_RUNNING));
  ASSERT_TRUE(RecordStopRequest(run_, UnixTime()).ok());
  ASSERT_TRUE(Reaches(v1::RUN_STOPPED));
  ExpectGapless();
}

// The launcher was killed between the record and the execution of the supervisor.
TEST_F(SupervisorTest, InterruptedLaunchIsStartedOnce) {
  Launch("quick");
  ProcessRecord record{IdentifyProcess(getpid()).value(), "nonce", UnixTime()};
  ++record.identity.start_time;
  ASSERT_TRUE(WriteProcessRecord(run_.process(), record).ok());
  EXPECT_TRUE(EnsureSupervised(BRAID_SUPERVISOR, run_).value());
  ASSERT_TRUE(Reaches(v1::RUN_SUCCEEDED));
  EXPECT_EQ(Describe().attempts(), 1);
  ASSERT_TRUE(Eventually([&] { return !HasLiveProcess(run_, UnixTime()); }));
  EXPECT_FALSE(EnsureSupervised(BRAID_SUPERVISOR, run_).value());
}

TEST_F(SupervisorTest, LostRunThatWasAskedToStopIsStopped) {
  Launch("endless");
  const pid_t supervisor = Start();
  ASSERT_TRUE(Trains(5));
  Kill(supervisor);
  kill(static_cast<pid_t>(Mpirun().pid), SIGKILL);
  ASSERT_TRUE(Eventually([&] { return !HasLiveProcess(run_, UnixTime()); }));
  ASSERT_TRUE(RecordStopRequest(run_, UnixTime()).ok());
  ASSERT_TRUE(EnsureSupervised(BRAID_SUPERVISOR, run_).value());
  ASSERT_TRUE(Reaches(v1::RUN_STOPPED));
  EXPECT_EQ(Describe().attempts(), 1);
}

// The supervisor is killed in the pause before a restart; the failure must not be counted again.
TEST_F(SupervisorTest, FailureBeforeThePauseCountsOnce) {
  Launch("crashing");
  LengthenPause(60);
  const pid_t supervisor = Start();
  ASSERT_TRUE(Reaches(v1::RUN_RESTARTING));
  Kill(supervisor);
  const std::string nonce = ReadProcessRecord(run_.attempt())->nonce;
  ASSERT_TRUE(run_.WriteExit({std::string(kFailed), "already recorded", 0, nonce, false}).ok());
  ASSERT_TRUE(EnsureSupervised(BRAID_SUPERVISOR, run_).value());
  ASSERT_TRUE(
      Eventually([&] { return ReadProcessRecord(run_.process())->identity.pid != supervisor; }));
  poll(nullptr, 0, 200);
  EXPECT_EQ(Describe().state(), v1::RUN_RESTARTING) << "the pause is not over";
  EXPECT_EQ(Describe().incidents_size(), 1);
  ASSERT_TRUE(RecordStopRequest(run_, UnixTime()).ok());
  ASSERT_TRUE(Reaches(v1::RUN_STOPPED));
  EXPECT_EQ(Describe().attempts(), 1);
}

// The trainer had hung while exiting.
TEST_F(SupervisorTest, FailedAttemptMayHaveSucceeded) {
  Launch("crashing");
  LengthenPause(60);
  const pid_t supervisor = Start();
  ASSERT_TRUE(Reaches(v1::RUN_RESTARTING));
  Kill(supervisor);
  const std::string nonce = ReadProcessRecord(run_.attempt())->nonce;
  ASSERT_TRUE(run_.WriteExit({std::string(kSucceeded), "", 10, nonce, false}).ok());
  ASSERT_TRUE(EnsureSupervised(BRAID_SUPERVISOR, run_).value());
  ASSERT_TRUE(Reaches(v1::RUN_SUCCEEDED));
}

// The supervisor died before its first event, but ResumeRun has already returned RUN_STARTING.
TEST_F(SupervisorTest, ResumeWhoseSupervisorDiedAtOnceIsContinued) {
  Launch("quick");
  EXPECT_EQ(Wait(Start()), kExitDone);
  EXPECT_FALSE(EnsureSupervised(BRAID_SUPERVISOR, run_).value());
  std::filesystem::remove(run_.metrics());
  ProcessRecord record = ReadProcessRecord(run_.process()).value();
  record.nonce = "resumed";
  // A run that has succeeded is not resumed.
  v1::RunEvent stopped = Events().back();
  stopped.set_state(v1::RUN_STOPPED);
  const std::string log = ReadFile(run_.events()).value();
  Write(run_.events(),
        log.substr(0, log.rfind('\n', log.size() - 2) + 1) + RunEventLine(stopped) + "\n");
  ASSERT_TRUE(WriteProcessRecord(run_.process(), record).ok());
  EXPECT_EQ(Describe().state(), v1::RUN_STARTING);
  ASSERT_TRUE(EnsureSupervised(BRAID_SUPERVISOR, run_).value());
  ASSERT_TRUE(Reaches(v1::RUN_SUCCEEDED));
  EXPECT_EQ(Describe().attempts(), 2);
  EXPECT_EQ(ReadProcessRecord(run_.process())->nonce, "resumed") << "a request to stop it holds";
}

class OtherIdentityTest : public SupervisorTest, public testing::WithParamInterface<int> {
 protected:
  void Change(const std::filesystem::path& file) {
    ProcessRecord record = ReadProcessRecord(file).value();
    (GetParam() == 0 ? record.identity.boot_id : record.identity.pid_namespace) = "before";
    ASSERT_TRUE(WriteProcessRecord(file, record).ok());
  }
  void AgeHeartbeat() {
    v1::Heartbeat beat = run_.ReadHeartbeats().at(0);
    beat.set_time(UnixTime() - 1000);
    ASSERT_TRUE(run_.WriteHeartbeat(beat).ok());
  }
};

// The machine, or the container, was restarted.
TEST_P(OtherIdentityTest, RunIsRestartedOnTheSameMachine) {
  Launch("endless");
  const pid_t supervisor = Start();
  ASSERT_TRUE(Trains(5));
  Kill(supervisor);
  kill(static_cast<pid_t>(Mpirun().pid), SIGKILL);
  ASSERT_TRUE(Eventually([&] { return !HasLiveProcess(run_, UnixTime()); }));
  Change(run_.process());
  Change(run_.attempt());
  EXPECT_FALSE(EnsureSupervised(BRAID_SUPERVISOR, run_).value()) << "its ranks may be alive";
  AgeHeartbeat();
  EXPECT_FALSE(HasEnded(Describe().state()));
  ASSERT_TRUE(EnsureSupervised(BRAID_SUPERVISOR, run_).value());
  ASSERT_TRUE(Eventually([&] { return Describe().attempts() == 2; }));
  EXPECT_EQ(Describe().incidents(0).kind(), v1::LOST);
  ASSERT_TRUE(RecordStopRequest(run_, UnixTime()).ok());
  ASSERT_TRUE(Reaches(v1::RUN_STOPPED));
  ExpectGapless();
}

TEST_P(OtherIdentityTest, RunOfAnotherMachineIsLeftAlone) {
  Launch("endless");
  const pid_t supervisor = Start();
  ASSERT_TRUE(Trains(2));
  Kill(supervisor);
  kill(static_cast<pid_t>(Mpirun().pid), SIGKILL);
  Change(run_.process());
  AgeHeartbeat();
  for (const char* machine : {"other", ""}) {  // "": an old record
    ProcessRecord record = ReadProcessRecord(run_.process()).value();
    record.identity.machine = machine;
    ASSERT_TRUE(WriteProcessRecord(run_.process(), record).ok());
    EXPECT_FALSE(EnsureSupervised(BRAID_SUPERVISOR, run_).value()) << machine;
  }
}
INSTANTIATE_TEST_SUITE_P(BootAndContainer, OtherIdentityTest, testing::Values(0, 1));

// supervision.json is only a cache, and events are retried.
TEST_F(SupervisorTest, FullDiskDoesNotEndSupervision) {
  Launch("endless");
  const pid_t supervisor = Start();
  ASSERT_TRUE(Trains(5));
  const rlimit nothing = {1, RLIM_INFINITY}, all = {RLIM_INFINITY, RLIM_INFINITY};
  ASSERT_EQ(prlimit(supervisor, RLIMIT_FSIZE, &nothing, nullptr), 0);
  const int64_t step = run_.ReadNewestMetrics()->step();
  ASSERT_TRUE(Eventually([&] { return run_.ReadNewestMetrics()->step() > step + 10; }));
  poll(nullptr, 0, 1200);
  EXPECT_LE(NewestTold(), step + 5);
  ASSERT_EQ(prlimit(supervisor, RLIMIT_FSIZE, &all, nullptr), 0);
  ASSERT_TRUE(Eventually([&] { return NewestTold() > step + 10; }));
  ExpectGapless();
  EXPECT_EQ(Describe().attempts(), 1);
}

// The clock of the client may be an hour behind or ahead.
TEST_F(SupervisorTest, GraceDoesNotDependOnTheClockOfTheRequest) {
  for (const double skew : {-3600, 3600}) {
    Launch("stubborn");
    const pid_t supervisor = Start({"--stop-grace", "0.6", "--kill-grace", "0.3"});
    ASSERT_TRUE(Eventually([&] { return Describe().state() == v1::RUN_RUNNING; }));
    const double begin = UnixTime();
    ASSERT_TRUE(RecordStopRequest(run_, UnixTime() + skew).ok());
    EXPECT_EQ(Wait(supervisor), kExitStopped);
    EXPECT_GT(UnixTime() - begin, 0.6);
  }
}

// A few starts without pauses, then none for a while.
TEST_F(SupervisorTest, SupervisorThatExitsAtOnceIsStartedWithPauses) {
  Launch("endless");
  Kill(Start());
  ASSERT_TRUE(WriteProcessRecord(run_.process(), DeadRecord()).ok());
  int started = 0;
  for (int i = 0; i < 50; ++i) started += EnsureSupervised("/bin/false", run_).value();
  EXPECT_EQ(started, 5);
}

TEST(BraidSupervisorTest, HelpExplainsExitCodes) {
  std::string out;
  const auto result = RunSubprocess(
      {.arguments = {BRAID_SUPERVISOR, "--help"}},
      [&](std::string_view line) { return out += line, true; }, [] { return false; });
  EXPECT_EQ(result->exit_code, 0);
  EXPECT_THAT(out, HasSubstr("RUN_DIR"));
  EXPECT_THAT(out, HasSubstr("75 the run was stopped"));
  EXPECT_EQ(RunSubprocess(
                {.arguments = {BRAID_SUPERVISOR, "/no/such/run"}},
                [](std::string_view) { return true; }, [] { return false; })
                ->exit_code,
            kExitNotFound);
}

}  // namespace supervisor_test
}  // namespace braid
