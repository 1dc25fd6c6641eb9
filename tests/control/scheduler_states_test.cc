// What Slurm does with the job of a run is a state of the run, with its reason: scripted programs
// of Slurm, a real braid-supervisor in the "job", and a fake trainer.
#include <gmock/gmock.h>
#include <signal.h>

#include <optional>

#include "absl/strings/match.h"
#include "base/clock.h"
#include "control/launch/launcher.h"
#include "control/launch/scheduled_run.h"
#include "control/launch/slurm_allocation.h"
#include "control/run_status.h"
#include "control/supervision/run_event_log.h"
#include "control/supervision/run_process.h"
#include "runs/process_identity.h"
#include "runs/stop_request.h"
#include "tests/base/scratch_directory.h"
#include "tests/control/control_fixture.h"
#include "tests/program.h"

namespace braid {
namespace scheduler_states_test {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr char kDownNode[] = "n1|mixed|none\nn2|down*|Not responding\n";

class SchedulerStatesTest : public ControlFixture {
 protected:
  SchedulerStatesTest() : path_(getenv("PATH")) {
    Script("mpirun",
           "[ \"$1\" = --version ] && { echo 'mpirun (Open MPI) 4.1.4'; exit 0; }\n"
           "while [ \"$2\" != train ]; do shift; done\nexec \"$@\"");
    const std::string root = root_.string();
    Script("bin/sbatch",
           "n=$(cat " + root + "/job); n=$((n+1)); echo $n >" + root + "/job; echo $n");
    Script("bin/scancel", "echo \"$1|CANCELLED|None|x\" >" + root + "/squeue");
    for (const char* program : {"squeue", "scontrol", "sinfo", "sacct"}) {
      Script(absl::StrCat("bin/", program), absl::StrCat("cat ", root, "/", program));
      Write(root_ / program, "");
    }
    Write(root_ / "job", "6");
    setenv("PATH", (root + "/bin:" + path_).c_str(), 1);
  }
  ~SchedulerStatesTest() override {
    job_.reset();
    KillTraining();
    setenv("PATH", path_.c_str(), 1);
  }

  void Script(const std::string& name, const std::string& body) {
    Write(root_ / name, "#!/bin/sh\n" + body + "\n");
    std::filesystem::permissions(root_ / name, std::filesystem::perms::owner_all);
  }

  // Submits a run whose trainer does what `name` says, as job 7 and later 8.
  absl::Status Submit(const std::string& name = "endless") {
    v1::RunSpec spec = Spec(name);
    spec.set_world_size(1);
    spec.mutable_launch()->set_backend(v1::SLURM);
    if (!std::filesystem::exists(run_.spec())) {
      EXPECT_TRUE(run_.WriteSpec(spec).ok());
    }
    return StartRun({.mpirun = (root_ / "mpirun").string(),
                     .trainer = BRAID_FAKE_TRAINER,
                     .supervisor = BRAID_SUPERVISOR},
                    run_);
  }
  void Queue(const std::string& state_and_reason) {
    Write(root_ / "squeue", SchedulerJobOf(run_) + "|" + state_and_reason + "|x\n");
  }
  // As slurmd executes the batch script.
  void StartJob(int restarts = 0, const std::string& job_name = "") {
    Queue("RUNNING|None");
    const SchedulerRecord record = *ReadSchedulerRecord(run_);
    std::vector<std::string> variables = {
        "SLURM_JOB_ID=" + record.job,
        "SLURM_JOB_NAME=" + (job_name.empty() ? record.job_name : job_name),
        "SLURM_JOB_NODELIST=n[1-2]"};
    if (restarts > 0) variables.push_back(absl::StrCat("SLURM_RESTART_COUNT=", restarts));
    job_.reset();
    job_.emplace(std::vector<std::string>{BRAID_SUPERVISOR, run_.root().string()},
                 TestProgramOptions{.variables = variables,
                                    .output = root_ / "supervisor.log",
                                    .errors = root_ / "supervisor.log"});
  }
  bool Runs() {
    return Eventually([&] { return Describe().state() == v1::RUN_RUNNING; });
  }
  // All processes of the node on which mpirun runs.
  void KillTraining() {
    if (job_) job_->Kill();
    const auto attempt = ReadProcessRecord(run_.attempt());
    if (attempt.ok()) kill(static_cast<pid_t>(attempt->identity.pid), SIGKILL);
    for (const int64_t pid : RankProcesses(run_)) kill(static_cast<pid_t>(pid), SIGKILL);
  }

  v1::Run Describe() const {
    return DescribeRun({.id = "run-000001", .run_dir = run_.root(), .created = UnixTime()},
                       UnixTime());
  }
  // squeue is cached for a second.
  bool Becomes(v1::RunState state, const std::string& text) {
    return Eventually([&] {
      const v1::Run run = Describe();
      return run.state() == state && absl::StrContains(run.reason() + run.error(), text);
    });
  }
  v1::RunEvent Newest() const { return ReadNewestRunEvent(run_.events()).value_or(v1::RunEvent()); }
  std::string Story() const {
    return Describe().DebugString() + GetFile(run_.events()) + GetFile(root_ / "supervisor.log");
  }

  const std::string path_;
  const RunDirectory run_{root_ / "runs/run-000001"};
  std::optional<TestProgram> job_;
};

TEST_F(SchedulerStatesTest, PendingReasonIsShown) {
  ASSERT_TRUE(Submit().ok());
  Queue("PENDING|Resources");
  EXPECT_TRUE(Becomes(v1::RUN_QUEUED, "Slurm job 7 waits: PENDING (Resources)")) << Story();
  Queue("PENDING|ReqNodeNotAvail, UnavailableNodes:n2");
  EXPECT_TRUE(Becomes(v1::RUN_QUEUED, "ReqNodeNotAvail, UnavailableNodes:n2")) << Story();
}

// A node of the job fails that is not the supervisor's: Slurm sends SIGTERM and queues the job
// again.
TEST_F(SchedulerStatesTest, NodeFailureQueuesTheRunAgain) {
  ASSERT_TRUE(Submit().ok());
  StartJob();
  ASSERT_TRUE(Runs()) << Story();
  Write(root_ / "scontrol", "JobId=7 JobState=COMPLETING Reason=None Requeue=1 Restarts=1\n");
  Write(root_ / "sinfo", kDownNode);
  Queue("COMPLETING|None");
  job_->Signal(SIGTERM);
  EXPECT_EQ(job_->Wait(), 0) << Story();
  EXPECT_EQ(Newest().state(), v1::RUN_QUEUED);
  const std::string cause =
      "Slurm queued job 7 again because node n2 failed (down: Not responding)";
  EXPECT_THAT(Newest().message(), AllOf(HasSubstr("stopped after step"), HasSubstr(cause)));
  EXPECT_TRUE(Becomes(v1::RUN_QUEUED, cause)) << Story();
  Queue("PENDING|BeginTime");
  EXPECT_TRUE(Becomes(v1::RUN_QUEUED, "was queued again: PENDING (BeginTime)")) << Story();
  EXPECT_THAT(Describe().reason(), AllOf(HasSubstr(cause), Not(HasSubstr("resume"))));
  const absl::Status second = Submit();
  EXPECT_TRUE(absl::IsFailedPrecondition(second)) << second;
  EXPECT_EQ(GetFile(root_ / "job"), "7\n") << "a second job";

  StartJob(1);
  ASSERT_TRUE(Runs()) << Story();
  EXPECT_EQ(Describe().attempts(), 2);
  EXPECT_EQ(Describe().incidents_size(), 0);
  EXPECT_GT(Newest().number(), 0);

  job_->Signal(SIGUSR1);
  EXPECT_EQ(job_->Wait(), 0) << "COMPLETED in Slurm's books";
  EXPECT_EQ(Newest().state(), v1::RUN_STOPPED) << Story();
  EXPECT_EQ(run_.ReadExit()->outcome, kStopped);
  // Readers ask Slurm in the background, so an older answer can stand for a moment.
  EXPECT_TRUE(Becomes(v1::RUN_STOPPED, "Slurm job 7 reaches its time limit")) << Story();
}

// Nothing is left that could record it.
TEST_F(SchedulerStatesTest, FailureOfTheSupervisorsNodeQueuesTheRunAgain) {
  ASSERT_TRUE(Submit().ok());
  StartJob();
  ASSERT_TRUE(Runs()) << Story();
  KillTraining();
  EXPECT_EQ(Describe().state(), v1::RUN_RUNNING) << "Slurm has not noticed it";
  Queue("PENDING|BeginTime");
  EXPECT_TRUE(Becomes(v1::RUN_QUEUED, "Slurm job 7 was queued again: PENDING (BeginTime)"))
      << Story();
  EXPECT_TRUE(absl::IsFailedPrecondition(Submit()));
  StartJob(1);
  ASSERT_TRUE(Eventually([&] { return Describe().attempts() == 2; })) << Story();
  ASSERT_TRUE(Runs()) << Story();
  EXPECT_EQ(Describe().incidents_size(), 0);
  EXPECT_THAT(GetFile(run_.events()), HasSubstr("Slurm job 7 was queued again and has started"));
}

TEST_F(SchedulerStatesTest, StopOfARunThatWasQueuedAgainCancelsItsJob) {
  ASSERT_TRUE(Submit().ok());
  StartJob();
  ASSERT_TRUE(Runs()) << Story();
  KillTraining();
  Queue("PENDING|BeginTime");
  ASSERT_TRUE(Becomes(v1::RUN_QUEUED, "queued again")) << Story();
  EXPECT_TRUE(*CancelQueuedRun(run_));
  EXPECT_TRUE(Becomes(v1::RUN_STOPPED, "")) << Story();
}

TEST_F(SchedulerStatesTest, CancellingTheJobInSlurmStopsTheRun) {
  ASSERT_TRUE(Submit().ok());
  StartJob();
  ASSERT_TRUE(Runs()) << Story();
  Write(root_ / "scontrol", "JobId=7 JobState=COMPLETING Reason=None Requeue=1 Restarts=0\n");
  job_->Signal(SIGTERM);
  EXPECT_EQ(job_->Wait(), 0) << Story();
  Queue("CANCELLED|None");
  EXPECT_TRUE(Becomes(v1::RUN_STOPPED, "Slurm job 7 was canceled in Slurm")) << Story();
  EXPECT_TRUE(Submit().ok()) << "it can be resumed";
  EXPECT_EQ(SchedulerJobOf(run_), "8");
}

TEST_F(SchedulerStatesTest, FinishedRunStaysFinished) {
  ASSERT_TRUE(Submit("quick").ok());
  StartJob();
  EXPECT_EQ(job_->Wait(), 0) << Story();
  const int64_t events = Newest().number();
  Queue("PENDING|BeginTime");
  EXPECT_EQ(Describe().state(), v1::RUN_SUCCEEDED);
  StartJob(1);
  EXPECT_EQ(job_->Wait(), 0) << Story();
  EXPECT_EQ(Describe().state(), v1::RUN_SUCCEEDED) << Story();
  EXPECT_EQ(Newest().number(), events) << Story();
}

// Slurm starts a job again that the user has replaced by resuming the run.
TEST_F(SchedulerStatesTest, OnlyTheNewestJobRuns) {
  ASSERT_TRUE(Submit("quick").ok());
  const std::string old_job = ReadSchedulerRecord(run_)->job_name;
  Queue("CANCELLED|None");
  ASSERT_TRUE(Becomes(v1::RUN_STOPPED, "was canceled")) << Story();
  ASSERT_TRUE(Submit().ok());
  StartJob(1, old_job);
  EXPECT_EQ(job_->Wait(), 1);
  EXPECT_THAT(GetFile(root_ / "supervisor.log"), HasSubstr("is not the newest job of"));
  EXPECT_FALSE(std::filesystem::exists(run_.events()));
  StartJob();
  EXPECT_EQ(job_->Wait(), 0) << Story();
}

TEST_F(SchedulerStatesTest, EndOfTheJobIsTheReasonOfTheState) {
  ASSERT_TRUE(Submit().ok());
  const auto expect = [&](const char* state, v1::RunState expected, const std::string& text) {
    Queue(std::string(state) + "|None");
    EXPECT_TRUE(Becomes(expected, text)) << state << "\n" << Story();
  };
  expect("CANCELLED", v1::RUN_STOPPED, "Slurm job 7 was canceled (CANCELLED) before the run began");
  expect("NODE_FAIL", v1::RUN_FAILED, "Slurm job 7 lost a node (NODE_FAIL) before the run began");
  StartJob();
  ASSERT_TRUE(Runs()) << Story();
  KillTraining();
  expect("NODE_FAIL", v1::RUN_FAILED, "lost a node (NODE_FAIL) together with the supervisor");
  expect("TIMEOUT", v1::RUN_FAILED, "reached its time limit (TIMEOUT)");
  expect("PREEMPTED", v1::RUN_FAILED, "was preempted (PREEMPTED)");
  expect("OUT_OF_MEMORY", v1::RUN_FAILED, "ran out of memory (OUT_OF_MEMORY)");
  expect("CANCELLED", v1::RUN_STOPPED, "was canceled (CANCELLED)");
  // slurmctld has forgotten the job, the accounting has not.
  Write(root_ / "sacct", "TIMEOUT\n");
  Write(root_ / "squeue", "");
  EXPECT_TRUE(Becomes(v1::RUN_FAILED, "reached its time limit (TIMEOUT)")) << Story();
}

TEST_F(SchedulerStatesTest, ASuccessCountsThoughAStopWasRequestedTooLate) {
  ASSERT_TRUE(Submit().ok());
  StartJob();
  ASSERT_TRUE(Runs()) << Story();
  KillTraining();
  ASSERT_TRUE(RecordStopRequest(run_, UnixTime()).ok());
  ASSERT_TRUE(run_.WriteExit({.outcome = std::string(kSucceeded), .error = "", .step = 3}).ok());
  Queue("NODE_FAIL|None");
  EXPECT_TRUE(Becomes(v1::RUN_SUCCEEDED, "")) << Story();
}

TEST_F(SchedulerStatesTest, KilledRunOnThisMachineSaysWhatHappens) {
  v1::RunSpec spec = Spec("endless");
  spec.set_world_size(1);
  ASSERT_TRUE(run_.WriteSpec(spec).ok());
  ASSERT_TRUE(StartRun({.mpirun = (root_ / "mpirun").string(),
                        .trainer = BRAID_FAKE_TRAINER,
                        .supervisor = BRAID_SUPERVISOR},
                       run_)
                  .ok());
  ASSERT_TRUE(Runs()) << Story();
  EXPECT_EQ(Describe().reason(), "");
  kill(static_cast<pid_t>(ReadProcessRecord(run_.process())->identity.pid), SIGKILL);
  ASSERT_TRUE(Becomes(v1::RUN_RUNNING, "its supervisor has exited; braid starts another one"));
  KillTraining();
  EXPECT_TRUE(Becomes(v1::RUN_RUNNING, "all of its processes have exited; braid restarts it"))
      << Story();
  // Its settings are damaged.
  Write(run_.spec(), GetFile(run_.spec()) + "world_size: {");
  EXPECT_TRUE(Becomes(v1::RUN_RUNNING, "its settings are unreadable")) << Story();
}

TEST(SlurmEndTest, IsInterpretedFromScontrolAndSinfo) {
  const SlurmAllocation job = {.job = "12", .job_name = "x", .nodes = "n[1-2]", .restarts = 1};
  const auto end = [&](const std::string& scontrol, const std::vector<std::string>& sinfo = {}) {
    return EndOfSlurmJob(job, scontrol, sinfo);
  };
  EXPECT_FALSE(end("JobId=12 JobState=COMPLETING Restarts=1").requeued);
  EXPECT_TRUE(end("JobId=12 JobState=COMPLETING Restarts=2").requeued);
  EXPECT_THAT(end("JobId=12 Restarts=2 PreemptTime=2026-11-23T05:00:00").cause,
              HasSubstr("again because another job preempted it"));
  EXPECT_THAT(end("JobId=12 Restarts=2 PreemptTime=None").cause, HasSubstr("was requeued"));
  EXPECT_THAT(end("JobId=12 Restarts=2", {"n1|idle|none", "n2|drained|broken fan"}).cause,
              HasSubstr("was requeued"));
  EXPECT_THAT(end("JobId=12 Restarts=2", {"n2|down*|Not responding"}).cause,
              HasSubstr("node n2 failed (down: Not responding)"));
  EXPECT_EQ(end("JobId=12 JobState=COMPLETING Reason=TimeLimit Restarts=1").cause,
            "Slurm job 12 reached its time limit");
  EXPECT_EQ(end("JobId=12 JobState=COMPLETING Reason=None Restarts=1").cause,
            "Slurm job 12 was canceled in Slurm");
  EXPECT_EQ(end("JobId=12 JobState=RUNNING Reason=None Restarts=1").cause,
            "Slurm job 12 received SIGTERM");
}

}  // namespace scheduler_states_test
}  // namespace braid
