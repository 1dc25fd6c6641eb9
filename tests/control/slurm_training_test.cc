// A run that trains on two nodes of a real Slurm, and everything that Slurm does to its job: the
// failure of a node, a requeue, a drained node, the time limit and scancel.
#include "absl/strings/match.h"
#include "control/launch/launcher.h"
#include "control/launch/scheduled_run.h"
#include "tests/control/control_fixture.h"
#include "tests/control/slurm_cluster.h"
#include "tests/control/supervised_run.h"

namespace braid {
namespace slurm_training_test {

using testing::HasSubstr;
using testing::Not;

class SlurmTrainingTest : public SupervisedRun {
 protected:
  void SetUp() override {
    auto cluster = SlurmCluster::Start(2);
    if (absl::IsFailedPrecondition(cluster.status())) {
      GTEST_SKIP() << "no Slurm here: " << cluster.status().message();
    }
    ASSERT_TRUE(cluster.ok()) << cluster.status();
    cluster_ = *std::move(cluster);
    v1::RunSpec spec = TinySpec(Dataset(), 1'000'000);
    spec.set_world_size(2);
    spec.set_threads_per_rank(1);
    spec.mutable_checkpoint()->set_every_steps(100);
    spec.mutable_launch()->set_backend(v1::SLURM);
    spec.mutable_launch()->set_network_interface("eth0");
    spec.mutable_launch()->mutable_slurm()->set_nodes(2);
    ASSERT_TRUE(run_.WriteSpec(spec).ok());
  }
  void TearDown() override {
    if (!cluster_) return;
    (void)EndScheduledJob(run_);
    cluster_.reset();
  }

  static absl::Status Submit(const RunDirectory& run) {
    return StartRun({.mpirun = "mpirun", .trainer = BRAID_TRAINER, .supervisor = BRAID_SUPERVISOR},
                    run);
  }
  void Slurm(std::vector<std::string> command) {
    const auto lines = AskScheduler(command);
    EXPECT_TRUE(lines.ok()) << lines.status();
  }
  // Slurm waits two minutes before it starts a job again, which a user may shorten once the job has
  // left its nodes. Nodes compare the times of credentials by the second: those that a job gets in
  // the second of its requeue count as revoked, and its steps do not start.
  bool StartSoon() {
    const auto update = [&] {
      return AskScheduler(
                 {"scontrol", "update", "JobId=" + SchedulerJobOf(run_), "StartTime=now+2"})
                 .ok() ||
             HasStarted();
    };
    return Eventually(update) && Eventually([&] { return HasStarted(); });
  }
  bool HasStarted() const { return !JobState().ends_with(" PENDING"); }
  bool Becomes(v1::RunState state, const std::string& reason, bool never_ends = false) {
    bool ended = false;
    const bool became = Eventually(
        [&] {
          const v1::Run run = Describe();
          ended = ended || HasEnded(run.state());
          return run.state() == state && absl::StrContains(run.reason(), reason);
        },
        120);
    EXPECT_FALSE(never_ends && ended) << Everything();
    return became;
  }
  // Waits until attempt `number` trains, from a checkpoint of an earlier one.
  bool Trains(int number) {
    const int64_t steps = NewestCheckpointStep(run_.checkpoints()) + 20;
    return Eventually(
        [&] {
          const v1::Run run = Describe();
          return run.state() == v1::RUN_RUNNING && run.attempts() == number &&
                 run.latest().step() >= steps && run.heartbeats_size() == 2;
        },
        120);
  }
  std::string Everything() const {
    return Story() + ReadFile(run_.events()).value_or("") +
           ReadFile(run_.root() / "supervisor.log").value_or("") +
           ReadFile(cluster_->root() / "slurmctld.log").value_or("");
  }
  std::string JobState() const {
    const auto jobs = SlurmCluster::Jobs(ReadSchedulerRecord(run_)->job_name);
    return jobs.empty() ? "" : jobs.front();
  }

  std::unique_ptr<SlurmCluster> cluster_;
};

TEST_F(SlurmTrainingTest, RunSurvivesNodesRequeuesAndLimits) {
  const absl::Status submitted = Submit(run_);
  ASSERT_TRUE(submitted.ok()) << submitted;
  ASSERT_TRUE(Trains(1)) << Everything();
  EXPECT_EQ(Describe().heartbeats(0).host(), "node-1");
  EXPECT_EQ(Describe().heartbeats(1).host(), "node-2");
  ASSERT_TRUE(Eventually([&] { return NewestCheckpointStep(run_.checkpoints()) > 0; }))
      << Everything();
  const std::string job = SchedulerJobOf(run_);

  // The second node dies: the run is never described as ended.
  cluster_->FailNode(2);
  ASSERT_TRUE(Becomes(v1::RUN_QUEUED, "node node-2 failed", /*never_ends=*/true)) << Everything();
  ASSERT_TRUE(Becomes(v1::RUN_QUEUED, "PENDING", true)) << Everything();
  EXPECT_THAT(Describe().reason(), Not(HasSubstr("resume")));
  EXPECT_TRUE(absl::IsFailedPrecondition(Submit(run_)));
  ASSERT_TRUE(cluster_->RestartNode(2).ok());
  ASSERT_TRUE(StartSoon()) << Everything();
  ASSERT_TRUE(Trains(2)) << Everything();
  EXPECT_EQ(SchedulerJobOf(run_), job);

  Slurm({"scontrol", "requeue", job});
  ASSERT_TRUE(Becomes(v1::RUN_QUEUED, "was requeued", true)) << Everything();
  ASSERT_TRUE(Becomes(v1::RUN_QUEUED, "PENDING", true)) << Everything();
  ASSERT_TRUE(StartSoon()) << Everything();
  ASSERT_TRUE(Trains(3)) << Everything();

  // A drained node finishes its job.
  Slurm({"scontrol", "update", "NodeName=node-2", "State=DRAIN", "Reason=maintenance"});
  const int64_t step = Describe().latest().step();
  ASSERT_TRUE(Eventually([&] { return Describe().latest().step() > step + 50; })) << Everything();
  EXPECT_EQ(Describe().state(), v1::RUN_RUNNING);

  // The limit is announced two minutes before it, which is now.
  Slurm({"scontrol", "update", "JobId=" + job, "TimeLimit=3"});
  ASSERT_TRUE(Becomes(v1::RUN_STOPPED, "reaches its time limit")) << Everything();
  EXPECT_EQ(run_.ReadExit()->outcome, kStopped);
  EXPECT_EQ(NewestCheckpointStep(run_.checkpoints()), run_.ReadExit()->step)
      << "a checkpoint before the end";
  EXPECT_TRUE(Eventually([&] { return JobState() == job + " COMPLETED"; })) << JobState();

  // Resumed while the node is drained, the run waits and says why.
  const absl::Status again = Submit(run_);
  ASSERT_TRUE(again.ok()) << again;
  EXPECT_NE(SchedulerJobOf(run_), job);
  ASSERT_TRUE(Becomes(v1::RUN_QUEUED, "DRAINED")) << Everything();
  Slurm({"scontrol", "update", "NodeName=node-2", "State=RESUME"});
  ASSERT_TRUE(Trains(4)) << Everything();

  Slurm({"scancel", SchedulerJobOf(run_)});
  ASSERT_TRUE(Becomes(v1::RUN_STOPPED, "was canceled")) << Everything();
  EXPECT_EQ(Describe().incidents_size(), 0) << Everything();
}

}  // namespace slurm_training_test
}  // namespace braid
