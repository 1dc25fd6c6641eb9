// Runs under a real Slurm: braid-supervisor, mpirun and two ranks in an allocation.
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/wait.h>

#include "absl/strings/match.h"
#include "base/clock.h"
#include "control/launch/launcher.h"
#include "control/launch/scheduled_run.h"
#include "control/run_status.h"
#include "control/supervision/run_process.h"
#include "control/supervision/subprocess.h"
#include "runs/process_identity.h"
#include "runs/stop_request.h"
#include "tests/base/scratch_directory.h"
#include "tests/control/control_fixture.h"
#include "tests/control/slurm_cluster.h"

namespace braid {
namespace slurm_launch_test {

using testing::ElementsAre;
using testing::HasSubstr;

class SlurmLaunchTest : public ControlFixture {
 protected:
  static void SetUpTestSuite() {
    auto cluster = SlurmCluster::Start();
    if (cluster.ok()) {
      cluster_ = std::move(*cluster);
    } else {
      reason_ = std::string(cluster.status().message());
      ASSERT_TRUE(absl::IsFailedPrecondition(cluster.status())) << cluster.status();
    }
  }
  static void TearDownTestSuite() { cluster_.reset(); }

  void SetUp() override {
    if (cluster_ == nullptr) GTEST_SKIP() << "no Slurm here: " << reason_;
  }
  void TearDown() override {
    if (cluster_ == nullptr) return;
    for (const auto& run : runs_) (void)EndScheduledJob(RunDirectory(run.run_dir));
    EXPECT_TRUE(Soon([] {
      const auto left = AskScheduler({"squeue", "--noheader", "--format=%i"});
      return left.ok() && left->empty();
    }));
  }

  // A run directory whose trainer does what `name` says, on both CPUs.
  RunDirectory NewRun(const std::string& id, const std::string& name) {
    const RunDirectory run(root_ / "runs" / id);
    v1::RunSpec spec = Spec(name);
    spec.set_world_size(2);
    spec.mutable_launch()->set_backend(v1::SLURM);
    spec.mutable_launch()->mutable_slurm()->set_nodes(1);
    spec.mutable_launch()->mutable_slurm()->set_time_limit_minutes(60);
    EXPECT_TRUE(run.WriteSpec(spec).ok());
    RunRecord& record = runs_.emplace_back();
    record.id = id;
    record.run_dir = run.root();
    record.created = UnixTime();
    return run;
  }

  LauncherPrograms Programs() const {
    return {.mpirun = "mpirun", .trainer = BRAID_FAKE_TRAINER, .supervisor = BRAID_SUPERVISOR};
  }
  v1::Run Describe(const RunDirectory& run) const {
    for (const RunRecord& record : runs_) {
      if (record.run_dir == run.root()) return DescribeRun(record, UnixTime());
    }
    return v1::Run();
  }
  // Slurm schedules every second or two, and the machine may be busy.
  static bool Soon(const std::function<bool()>& condition) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!condition()) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      poll(nullptr, 0, 50);
    }
    return true;
  }
  bool Reaches(const RunDirectory& run, v1::RunState state) {
    return Soon([&] { return Describe(run).state() == state; });
  }
  static std::string Story(const RunDirectory& run) {
    return GetFile(run.root() / "supervisor.log") + GetFile(run.events()) + GetFile(run.log());
  }
  // As StopRun does it.
  static void Stop(const RunDirectory& run) {
    ASSERT_TRUE(CancelQueuedRun(run).value() || RecordStopRequest(run, UnixTime()).ok());
  }

  static inline std::unique_ptr<SlurmCluster> cluster_;
  static inline std::string reason_;
  std::vector<RunRecord> runs_;
};

TEST_F(SlurmLaunchTest, WaitsInTheQueueRunsAndEnds) {
  const RunDirectory first = NewRun("run-000001", "endless");
  ASSERT_TRUE(StartRun(Programs(), first).ok());
  ASSERT_TRUE(Reaches(first, v1::RUN_RUNNING)) << Story(first);
  const RunDirectory second = NewRun("run-000002", "quick");
  ASSERT_TRUE(StartRun(Programs(), second).ok());
  EXPECT_EQ(Describe(second).state(), v1::RUN_QUEUED);
  EXPECT_EQ(Describe(second).scheduler_job(), SchedulerJobOf(second));
  EXPECT_TRUE(
      Soon([&] { return absl::StrContains(LookAtScheduledRun(second)->message, "PENDING"); }));

  Stop(first);
  EXPECT_TRUE(Reaches(first, v1::RUN_STOPPED)) << Story(first);
  EXPECT_EQ(first.ReadExit()->outcome, kStopped);
  EXPECT_TRUE(Reaches(second, v1::RUN_SUCCEEDED)) << Story(second);
  EXPECT_EQ(Describe(second).latest().step(), 10);
  EXPECT_EQ(Describe(second).heartbeats_size(), 2);
}

TEST_F(SlurmLaunchTest, StoppingAQueuedRunCancelsItsJob) {
  const RunDirectory first = NewRun("run-000001", "endless");
  ASSERT_TRUE(StartRun(Programs(), first).ok());
  ASSERT_TRUE(Reaches(first, v1::RUN_RUNNING)) << Story(first);
  const RunDirectory second = NewRun("run-000002", "quick");
  ASSERT_TRUE(StartRun(Programs(), second).ok());
  EXPECT_TRUE(Soon([&] { return absl::IsFailedPrecondition(StartRun(Programs(), second)); }));
  const std::string job = SchedulerJobOf(second);
  Stop(second);
  EXPECT_TRUE(Reaches(second, v1::RUN_STOPPED));
  EXPECT_THAT(SlurmCluster::Jobs(ReadSchedulerRecord(second)->job_name),
              ElementsAre(job + " CANCELLED"));
  EXPECT_FALSE(CancelQueuedRun(first).value()) << "it runs";

  ASSERT_TRUE(StartRun(Programs(), second).ok());
  EXPECT_NE(SchedulerJobOf(second), job);
  EXPECT_EQ(Describe(second).state(), v1::RUN_QUEUED);
  Stop(first);
  EXPECT_TRUE(Reaches(second, v1::RUN_SUCCEEDED)) << Story(second);
  // A resumed run gets a new job and continues from its checkpoint.
  ASSERT_TRUE(StartRun(Programs(), first).ok());
  EXPECT_TRUE(Reaches(first, v1::RUN_RUNNING)) << Story(first);
}

// The service is killed when sbatch has answered and the answer is not yet recorded.
TEST_F(SlurmLaunchTest, CrashAfterSubmittingNeverSubmitsTwice) {
  const RunDirectory run = NewRun("run-000001", "quick");
  const std::string sbatch = *FindProgram("sbatch");
  Write(root_ / "bin/sbatch", "#!/bin/sh\n" + sbatch + " \"$@\" >/dev/null\nkill -9 $PPID\n");
  std::filesystem::permissions(root_ / "bin/sbatch", std::filesystem::perms::owner_all);
  const pid_t service = fork();
  if (service == 0) {
    setenv("PATH", absl::StrCat((root_ / "bin").string(), ":", getenv("PATH")).c_str(), 1);
    (void)StartRun(Programs(), run);
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(service, &status, 0), service);
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(SchedulerJobOf(run), "");
  const std::string name = ReadSchedulerRecord(run)->job_name;
  const absl::Status again = StartRun(Programs(), run);
  // It may run by now, or have run.
  EXPECT_TRUE(again.ok() || absl::IsFailedPrecondition(again)) << again;
  EXPECT_TRUE(Reaches(run, v1::RUN_SUCCEEDED)) << Story(run);
  EXPECT_EQ(SlurmCluster::Jobs(name).size(), 1u);
}

TEST_F(SlurmLaunchTest, JobWhoseSupervisorDoesNotStopItIsCancelled) {
  const RunDirectory run = NewRun("run-000001", "stubborn");
  ASSERT_TRUE(StartRun(Programs(), run).ok());
  ASSERT_TRUE(Reaches(run, v1::RUN_RUNNING)) << Story(run);
  const auto supervisor = ReadProcessRecord(run.process());
  ASSERT_TRUE(supervisor.ok());
  kill(static_cast<pid_t>(supervisor->identity.pid), SIGSTOP);
  const double now = UnixTime();
  ASSERT_TRUE(RecordStopRequest(run, now).ok());
  ASSERT_TRUE(EndOverdueJob(run, now + kStopGraceSeconds).ok());
  EXPECT_EQ(ReadSchedulerRecord(run)->cancelled_at, 0);
  ASSERT_TRUE(EndOverdueJob(run, now + 100).ok());
  EXPECT_TRUE(Reaches(run, v1::RUN_STOPPED)) << Story(run);
  EXPECT_TRUE(RankProcesses(run).empty());
}

// The run directory has no record of it.
TEST_F(SlurmLaunchTest, JobWhoseSupervisorIsKilledHasFailed) {
  const RunDirectory run = NewRun("run-000001", "endless");
  ASSERT_TRUE(StartRun(Programs(), run).ok());
  ASSERT_TRUE(Reaches(run, v1::RUN_RUNNING)) << Story(run);
  kill(static_cast<pid_t>(ReadProcessRecord(run.process())->identity.pid), SIGKILL);
  EXPECT_TRUE(Reaches(run, v1::RUN_FAILED)) << Story(run);
  EXPECT_THAT(Describe(run).error(), HasSubstr("together with the supervisor of the run"));
  // This cluster tracks processes without cgroups, so mpirun, in its own session, survives.
  kill(static_cast<pid_t>(ReadProcessRecord(run.attempt())->identity.pid), SIGKILL);
  for (const int64_t pid : RankProcesses(run)) kill(static_cast<pid_t>(pid), SIGKILL);
}

TEST_F(SlurmLaunchTest, RefusalCarriesTheMessageOfSlurm) {
  const RunDirectory run = NewRun("run-000001", "quick");
  v1::RunSpec spec = *run.ReadSpec();
  spec.mutable_launch()->mutable_slurm()->set_partition("nowhere");
  ASSERT_TRUE(run.WriteSpec(spec).ok());
  const absl::Status status = StartRun(Programs(), run);
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("nvalid partition"));
  spec.mutable_launch()->mutable_slurm()->clear_partition();
  ASSERT_TRUE(run.WriteSpec(spec).ok());
  ASSERT_TRUE(StartRun(Programs(), run).ok());
  EXPECT_TRUE(Reaches(run, v1::RUN_SUCCEEDED)) << Story(run);
}

}  // namespace slurm_launch_test
}  // namespace braid
