#include "control/launch/launcher.h"

#include <gmock/gmock.h>
#include <signal.h>

#include "base/atomic_file.h"
#include "control/supervision/run_process.h"
#include "control/supervision/subprocess.h"
#include "tests/control/control_fixture.h"

namespace braid {
namespace launcher_test {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;

class LauncherTest : public ControlFixture {
 protected:
  RunDirectory NewRun(const std::string& name, int world_size = 1) {
    const RunDirectory run(root_ / name);
    v1::RunSpec spec = Spec(name);
    spec.set_world_size(world_size);
    EXPECT_TRUE(run.WriteSpec(spec).ok());
    return run;
  }
  LauncherPrograms Programs() const { return ProgramsOf(Options()); }
  static ProcessRecord Start(const LauncherPrograms& programs, const RunDirectory& run) {
    const absl::Status started = StartRun(programs, run);
    EXPECT_TRUE(started.ok()) << started;
    return ReadProcessRecord(run.process()).value_or(ProcessRecord());
  }
  static std::string Log(const RunDirectory& run) { return ReadFile(run.log()).value_or(""); }
};

TEST_F(LauncherTest, StartsADetachedTrainerAndRecordsIt) {
  const RunDirectory run = NewRun("endless");
  const ProcessRecord record = Start(Programs(), run);
  const pid_t pid = static_cast<pid_t>(record.identity.pid);
  EXPECT_TRUE(IsAlive(ReadProcessRecord(run.process()).value().identity));
  EXPECT_EQ(getsid(pid), pid);
  ASSERT_TRUE(Eventually([&] { return Log(run) == "training endless\n"; }));
  kill(pid, SIGKILL);
  EXPECT_TRUE(Eventually([&] { return !IsAlive(record.identity); }));
}

TEST_F(LauncherTest, LeavesNoZombie) {
  const RunDirectory run = NewRun("quick");
  const ProcessRecord record = Start(Programs(), run);
  EXPECT_TRUE(Eventually([&] { return kill(static_cast<pid_t>(record.identity.pid), 0) != 0; }));
}

TEST_F(LauncherTest, RefusesASecondTrainerOfTheSameRun) {
  const RunDirectory run = NewRun("endless");
  const ProcessRecord record = Start(Programs(), run);
  EXPECT_TRUE(absl::IsFailedPrecondition(StartRun(Programs(), run)));
  kill(static_cast<pid_t>(record.identity.pid), SIGKILL);
}

TEST_F(LauncherTest, RemovesTheExitOfAnEarlierAttempt) {
  const RunDirectory run = NewRun("crashing");
  ASSERT_TRUE(run.WriteExit({std::string(kStopped), "", 5}).ok());
  ASSERT_TRUE(StartRun(Programs(), run).ok());
  EXPECT_FALSE(run.ReadExit().has_value());
}

TEST_F(LauncherTest, MissingProgramsAreNamedWithAHint) {
  const RunDirectory run = NewRun("quick");
  LauncherPrograms programs = Programs();
  programs.mpirun = "no-such-mpirun";
  absl::Status status = StartRun(programs, run);
  EXPECT_TRUE(absl::IsFailedPrecondition(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("openmpi-bin"));
  programs = Programs();
  programs.trainer = "/missing/braid-trainer";
  status = StartRun(programs, run);
  EXPECT_TRUE(absl::IsFailedPrecondition(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("/missing/braid-trainer"));
}

TEST_F(LauncherTest, RanksUnderTheRealMpirunAreFoundAndStopOnTheirSignal) {
  if (!FindProgram("mpirun")) GTEST_SKIP() << "Open MPI is not installed";
  const RunDirectory run = NewRun("endless", 2);
  LauncherPrograms programs = Programs();
  programs.mpirun = "mpirun";
  const ProcessRecord record = Start(programs, run);
  ASSERT_TRUE(Eventually([&] { return RankProcesses(run).size() == 2; })) << Log(run);
  EXPECT_THAT(RankProcesses(run), Not(Contains(record.identity.pid)));
  // Both must have set their handlers before they are signaled.
  ASSERT_TRUE(Eventually([&] { return run.ReadNewestMetrics().has_value(); })) << Log(run);
  ASSERT_TRUE(RecordStopRequest(run, 1.0).ok());
  std::set<int64_t> signaled;
  ASSERT_TRUE(SignalRanks(run, &signaled).ok());
  EXPECT_EQ(signaled.size(), 2u);
  EXPECT_TRUE(Eventually([&] { return !IsAlive(record.identity); }));
  ASSERT_TRUE(run.ReadExit().has_value()) << Log(run);
  EXPECT_EQ(run.ReadExit()->outcome, kStopped);
  EXPECT_TRUE(RankProcesses(run).empty());
}

}  // namespace launcher_test
}  // namespace braid
