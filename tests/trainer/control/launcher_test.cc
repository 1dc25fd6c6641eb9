#include "trainer/control/launcher.h"

#include <gmock/gmock.h>
#include <signal.h>

#include "formats/atomic_file.h"
#include "tests/trainer/control/control_fixture.h"
#include "trainer/control/run_process.h"
#include "trainer/control/subprocess.h"

namespace braid {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

const LauncherPrograms kPrograms{.mpirun = "/usr/bin/mpirun", .trainer = "/opt/braid-trainer"};

v1::RunSpec TwoRanks() {
  v1::RunSpec spec;
  spec.set_world_size(2);
  spec.set_threads_per_rank(3);
  return spec;
}

TEST(PlanLaunchTest, GivesMpirunTheRanksAndTheRunDirectory) {
  EXPECT_THAT(PlanLaunch(kPrograms, "/home/a b/runs/run-000001", TwoRanks(), {}, false).arguments,
              ElementsAre("/usr/bin/mpirun", "--bind-to", "none", "--map-by", ":OVERSUBSCRIBE",
                          "-n", "2", "/opt/braid-trainer", "train", "/home/a b/runs/run-000001"));
}

TEST(PlanLaunchTest, SetsThreadsOverWhatIsThere) {
  EXPECT_THAT(PlanLaunch(kPrograms, "/r", TwoRanks(),
                         {"OMP_NUM_THREADS=64", "OMP_WAIT_POLICY=ACTIVE", "PATH=/bin"}, false)
                  .environment,
              ElementsAre("PATH=/bin", "OMP_NUM_THREADS=3", "OMP_WAIT_POLICY=PASSIVE",
                          "OMPI_MCA_btl_vader_single_copy_mechanism=none"));
}

TEST(PlanLaunchTest, AllowsRootOnlyForRoot) {
  const std::string allow = "OMPI_ALLOW_RUN_AS_ROOT=1";
  const std::string confirm = "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1";
  const auto environment = [](bool root) {
    return PlanLaunch(kPrograms, "/r", TwoRanks(), {}, root).environment;
  };
  EXPECT_THAT(environment(true), testing::AllOf(Contains(allow), Contains(confirm)));
  EXPECT_THAT(environment(false), testing::AllOf(Not(Contains(allow)), Not(Contains(confirm))));
}

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
  static std::string Log(const RunDirectory& run) { return ReadFile(run.log()).value_or(""); }
};

TEST_F(LauncherTest, StartsADetachedTrainerAndRecordsIt) {
  const RunDirectory run = NewRun("endless");
  const ProcessRecord record = LaunchTrainer(Programs(), run).value();
  const pid_t pid = static_cast<pid_t>(record.identity.pid);
  EXPECT_TRUE(IsAlive(ReadProcessRecord(run.process()).value().identity));
  EXPECT_EQ(getsid(pid), pid);
  ASSERT_TRUE(Eventually([&] { return Log(run) == "training endless\n"; }));
  kill(pid, SIGKILL);
  EXPECT_TRUE(Eventually([&] { return !IsAlive(record.identity); }));
}

TEST_F(LauncherTest, LeavesNoZombie) {
  const RunDirectory run = NewRun("quick");
  const ProcessRecord record = LaunchTrainer(Programs(), run).value();
  EXPECT_TRUE(Eventually([&] { return kill(static_cast<pid_t>(record.identity.pid), 0) != 0; }));
}

TEST_F(LauncherTest, RefusesASecondTrainerOfTheSameRun) {
  const RunDirectory run = NewRun("endless");
  const ProcessRecord record = LaunchTrainer(Programs(), run).value();
  EXPECT_TRUE(absl::IsFailedPrecondition(LaunchTrainer(Programs(), run).status()));
  kill(static_cast<pid_t>(record.identity.pid), SIGKILL);
}

TEST_F(LauncherTest, RemovesTheExitOfAnEarlierAttempt) {
  const RunDirectory run = NewRun("crashing");
  ASSERT_TRUE(run.WriteExit({std::string(kStopped), "", 5}).ok());
  ASSERT_TRUE(LaunchTrainer(Programs(), run).ok());
  EXPECT_FALSE(run.ReadExit().has_value());
}

TEST_F(LauncherTest, MissingProgramsAreNamedWithAHint) {
  const RunDirectory run = NewRun("quick");
  LauncherPrograms programs = Programs();
  programs.mpirun = "no-such-mpirun";
  absl::Status status = LaunchTrainer(programs, run).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("openmpi-bin"));
  programs = Programs();
  programs.trainer = "/missing/braid-trainer";
  status = LaunchTrainer(programs, run).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("/missing/braid-trainer"));
}

TEST_F(LauncherTest, RanksUnderTheRealMpirunAreFoundAndStopOnTheirSignal) {
  if (!FindProgram("mpirun")) GTEST_SKIP() << "Open MPI is not installed";
  const RunDirectory run = NewRun("endless", 2);
  LauncherPrograms programs = Programs();
  programs.mpirun = "mpirun";
  const ProcessRecord record = LaunchTrainer(programs, run).value();
  ASSERT_TRUE(Eventually([&] { return RankProcesses(run).size() == 2; })) << Log(run);
  EXPECT_THAT(RankProcesses(run), Not(Contains(record.identity.pid)));
  // Both must have set their handlers before they are signalled.
  ASSERT_TRUE(Eventually([&] { return run.ReadNewestMetrics().has_value(); })) << Log(run);
  ASSERT_TRUE(RecordStopRequest(run, 1.0).ok());
  std::set<int64_t> signalled;
  ASSERT_TRUE(SignalRanks(run, &signalled).ok());
  EXPECT_EQ(signalled.size(), 2u);
  EXPECT_TRUE(Eventually([&] { return !IsAlive(record.identity); }));
  ASSERT_TRUE(run.ReadExit().has_value()) << Log(run);
  EXPECT_EQ(run.ReadExit()->outcome, kStopped);
  EXPECT_TRUE(RankProcesses(run).empty());
}

}  // namespace
}  // namespace braid
