// Supervisors that are started again: after their own death, that of mpirun, or that of the
// machine.
#include "control/supervision/reattach.h"

#include <gmock/gmock.h>
#include <signal.h>

#include <filesystem>
#include <string>

#include "base/atomic_file.h"
#include "base/clock.h"
#include "control/supervision/run_event_log.h"
#include "control/supervision/run_process.h"
#include "runs/process_identity.h"
#include "runs/run_state.h"
#include "runs/stop_request.h"
#include "tests/control/supervision/supervisor_fixture.h"

namespace braid {
namespace reattach_test {

class ReattachTest : public SupervisorFixture {
 protected:
  // Kills the supervisor of a failed attempt in the pause before the restart.
  void KillInThePause(pid_t* supervisor) {
    Launch("crashing");
    LengthenPause(60);
    *supervisor = Start();
    ASSERT_TRUE(Reaches(v1::RUN_RESTARTING));
    Kill(*supervisor);
  }
};

// mpirun and the numbering of events continue.
TEST_F(ReattachTest, NewSupervisorReattachesToRunningMpirun) {
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

TEST_F(ReattachTest, LostRunIsRestarted) {
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
TEST_F(ReattachTest, InterruptedLaunchIsStartedOnce) {
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

TEST_F(ReattachTest, LostRunThatWasAskedToStopIsStopped) {
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
TEST_F(ReattachTest, FailureBeforeThePauseCountsOnce) {
  pid_t supervisor = 0;
  ASSERT_NO_FATAL_FAILURE(KillInThePause(&supervisor));
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
TEST_F(ReattachTest, FailedAttemptMayHaveSucceeded) {
  pid_t supervisor = 0;
  ASSERT_NO_FATAL_FAILURE(KillInThePause(&supervisor));
  const std::string nonce = ReadProcessRecord(run_.attempt())->nonce;
  ASSERT_TRUE(run_.WriteExit({std::string(kSucceeded), "", 10, nonce, false}).ok());
  ASSERT_TRUE(EnsureSupervised(BRAID_SUPERVISOR, run_).value());
  ASSERT_TRUE(Reaches(v1::RUN_SUCCEEDED));
}

// The supervisor died before its first event, but ResumeRun has already returned RUN_STARTING.
TEST_F(ReattachTest, ResumeWhoseSupervisorDiedAtOnceIsContinued) {
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

class OtherIdentityTest : public ReattachTest, public testing::WithParamInterface<int> {
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
  ASSERT_TRUE(Eventually([&] { return !HasLiveProcess(run_, UnixTime()); }));
  Change(run_.process());
  Change(run_.attempt());
  AgeHeartbeat();
  const ProcessRecord own = ReadProcessRecord(run_.process()).value();
  for (const char* machine : {"other", ""}) {  // "": an old record
    ProcessRecord record = own;
    record.identity.machine = machine;
    ASSERT_TRUE(WriteProcessRecord(run_.process(), record).ok());
    EXPECT_FALSE(EnsureSupervised(BRAID_SUPERVISOR, run_).value()) << machine;
  }
  // The machine alone made the difference.
  ASSERT_TRUE(WriteProcessRecord(run_.process(), own).ok());
  EXPECT_TRUE(EnsureSupervised(BRAID_SUPERVISOR, run_).value());
  ASSERT_TRUE(Eventually([&] { return Describe().attempts() == 2; }));
  ASSERT_TRUE(RecordStopRequest(run_, UnixTime()).ok());
  ASSERT_TRUE(Reaches(v1::RUN_STOPPED));
}
INSTANTIATE_TEST_SUITE_P(BootAndContainer, OtherIdentityTest, testing::Values(0, 1));

// A few starts without pauses, then none for a while.
TEST_F(ReattachTest, SupervisorThatExitsAtOnceIsStartedWithPauses) {
  Launch("endless");
  Kill(Start());
  ASSERT_TRUE(WriteProcessRecord(run_.process(), DeadRecord()).ok());
  int started = 0;
  for (int i = 0; i < 50; ++i) started += EnsureSupervised("/bin/false", run_).value();
  EXPECT_EQ(started, 5);
}

}  // namespace reattach_test
}  // namespace braid
