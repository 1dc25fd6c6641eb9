// The supervisor with a fake trainer; supervised_training_test.cc has the real one.
#include "control/supervision/supervisor.h"

#include <gmock/gmock.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>

#include <cstdint>
#include <fstream>
#include <string>

#include "base/clock.h"
#include "control/supervision/reattach.h"
#include "control/supervision/subprocess.h"
#include "runs/process_identity.h"
#include "runs/run_state.h"
#include "runs/stop_request.h"
#include "tests/control/supervision/supervisor_fixture.h"

namespace braid {
namespace supervisor_test {

using testing::ElementsAre;
using testing::HasSubstr;

class SupervisorTest : public SupervisorFixture {};

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
  EXPECT_THAT(run.error(), HasSubstr("giving up: 2 restarts failed in the same way"));
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

bool HasPendingTerm(int64_t pid) {
  std::ifstream status("/proc/" + std::to_string(pid) + "/status");
  std::string name, mask;
  while (status >> name && name != "ShdPnd:") {
  }
  return status >> mask && (std::stoull(mask, nullptr, 16) >> (SIGTERM - 1) & 1) != 0;
}

// As when a machine or a container is paused.
TEST_F(SupervisorTest, GraceDoesNotCountTimeInWhichTheSupervisorWasStopped) {
  Launch("endless");
  v1::RunSpec spec = run_.ReadSpec().value();
  spec.mutable_supervision()->set_hang_seconds(60);
  ASSERT_TRUE(run_.WriteSpec(spec).ok());
  const pid_t supervisor = Start({"--stop-grace", "3", "--kill-grace", "0"});
  ASSERT_TRUE(Trains(2));
  const auto trainer = static_cast<pid_t>(Mpirun().pid);
  kill(trainer, SIGSTOP);
  ASSERT_TRUE(RecordStopRequest(run_, UnixTime()).ok());
  ASSERT_TRUE(Eventually([&] { return HasPendingTerm(trainer); }));
  kill(supervisor, SIGSTOP);
  poll(nullptr, 0, 3500);
  kill(supervisor, SIGCONT);
  kill(trainer, SIGCONT);
  EXPECT_EQ(Wait(supervisor), kExitStopped);
  EXPECT_THAT(Events().back().message(), HasSubstr("stopped after step "));
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
