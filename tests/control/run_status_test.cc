#include "control/run_status.h"

#include <gmock/gmock.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <future>
#include <string>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "control/supervision/run_event_log.h"
#include "control/supervision/run_history.h"
#include "control/supervision/run_process.h"
#include "runs/checkpoint_directory.h"
#include "runs/process_identity.h"
#include "tests/base/status_matchers.h"
#include "tests/control/control_fixture.h"

namespace braid {
namespace run_status_test {

using testing::HasSubstr;

double WallClock() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

class RunStatusTest : public ControlFixture {
 protected:
  RunStatusTest() { EXPECT_TRUE(run_.WriteSpec(Spec("toy")).ok()); }

  v1::Run Describe() {
    return DescribeRun({.id = "run-000001", .run_dir = run_.root(), .created = created_}, now_);
  }
  void Launched(bool alive) {
    ProcessRecord record{IdentifyProcess(getpid()).value(), "nonce", now_ - 1};
    if (!alive) ++record.identity.start_time;
    ASSERT_TRUE(WriteProcessRecord(run_.process(), record).ok());
  }
  void Beat(double time) {
    v1::Heartbeat heartbeat;
    heartbeat.set_time(time);
    ASSERT_TRUE(run_.WriteHeartbeat(heartbeat).ok());
  }

  // Processes with the arguments of a rank of the run.
  std::vector<int64_t> Started() const {
    std::vector<int64_t> started;
    for (const int64_t pid : ProcessIds()) {
      const std::vector<std::string> arguments = ProcessArguments(pid);
      if (!arguments.empty() && arguments.back() == run_.root().string()) started.push_back(pid);
    }
    return started;
  }

  const RunDirectory run_{root_ / "run"};
  double now_ = WallClock();
  double created_ = now_ - 5;
};

TEST_F(RunStatusTest, StartsUntilARankReports) {
  EXPECT_EQ(Describe().state(), v1::RUN_STARTING);
  Launched(true);
  Beat(now_ - 100);  // a heartbeat of an earlier attempt
  EXPECT_EQ(Describe().state(), v1::RUN_STARTING);
  Beat(now_);
  EXPECT_EQ(Describe().state(), v1::RUN_RUNNING);
}

TEST_F(RunStatusTest, RunThatNeverStartedFailsAfterAWhile) {
  created_ = now_ - 3600;
  EXPECT_EQ(Describe().state(), v1::RUN_FAILED);
  EXPECT_THAT(Describe().error(), HasSubstr("never started"));
  // Without an end it would never leave /metrics.
  EXPECT_DOUBLE_EQ(Describe().finished_at(), created_);
}

TEST_F(RunStatusTest, InterruptedLaunchFailsWhenNoSupervisorStarts) {
  Launched(false);
  Write(run_.launch(), "{}");
  EXPECT_EQ(Describe().state(), v1::RUN_STARTING);
  now_ += 60;
  EXPECT_EQ(Describe().state(), v1::RUN_FAILED);
}

// As after an error of the disk or of a file server.
TEST_F(RunStatusTest, FileThatCannotBeLookedAtCountsAsMissing) {
  Launched(false);
  std::filesystem::create_symlink("launch.json", run_.launch());
  EXPECT_EQ(Describe().state(), v1::RUN_FAILED);
}

TEST_F(RunStatusTest, EndIsThatOfTheExitRecord) {
  Launched(false);
  ASSERT_TRUE(run_.WriteExit({std::string(kSucceeded), "", 10}).ok());
  EXPECT_EQ(Describe().state(), v1::RUN_SUCCEEDED);
  EXPECT_NEAR(Describe().finished_at(), now_, 60);
  ASSERT_TRUE(run_.WriteExit({std::string(kFailed), "loss is NaN", 10}).ok());
  EXPECT_EQ(Describe().state(), v1::RUN_FAILED);
  EXPECT_EQ(Describe().error(), "loss is NaN");
  ASSERT_TRUE(run_.WriteExit({std::string(kStopped), "", 10}).ok());
  EXPECT_EQ(Describe().state(), v1::RUN_STOPPED);
}

TEST_F(RunStatusTest, LostMetricsOfASucceededRunAreReported) {
  Launched(false);
  ASSERT_TRUE(run_.WriteExit({std::string(kSucceeded), "", 2}).ok());
  Write(run_.metrics(), "{\"step\":1}\n{\"st");
  EXPECT_THAT(Describe().reason(), HasSubstr("metrics.jsonl is damaged: it ends at step 1 of 2"));
  Write(run_.metrics(), std::string(5000, '\0'));
  EXPECT_THAT(Describe().reason(), HasSubstr("metrics.jsonl is damaged"));
  Write(run_.metrics(), "{\"step\":1}\n{\"step\":2}\n");
  EXPECT_EQ(Describe().reason(), "");
}

TEST_F(RunStatusTest, DeathWithoutExitRecordCarriesTheEndOfTheLog) {
  Launched(false);
  Write(run_.log(), std::string(10000, 'x') + "\nfirst\nSegmentation fault\n");
  EXPECT_EQ(Describe().state(), v1::RUN_FAILED);
  EXPECT_THAT(Describe().error(), testing::EndsWith("trainer.log:\nfirst\nSegmentation fault"));
}

TEST_F(RunStatusTest, DeathAfterAStopRequestIsStopped) {
  Launched(false);
  ASSERT_TRUE(RecordStopRequest(run_, now_).ok());
  EXPECT_EQ(Describe().state(), v1::RUN_STOPPED);
}

TEST_F(RunStatusTest, StopRequestsMayBeMadeAtTheSameTime) {
  Launched(true);
  for (int i = 0; i < 50; ++i) {
    RemoveStopRequest(run_);
    std::vector<std::future<absl::Status>> requests;
    for (const std::string reason : {"", "disk full", "a longer reason, of another user"}) {
      requests.push_back(std::async(std::launch::async,
                                    [&, reason] { return RecordStopRequest(run_, now_, reason); }));
    }
    for (auto& request : requests) EXPECT_OK(request.get());
    EXPECT_TRUE(ReadStopRequest(run_).has_value());
  }
}

// A container may have a run directory of the same path, and its processes the same user.
TEST_F(RunStatusTest, RanksOfAContainerAreNotThoseOfItsHost) {
  const std::filesystem::path rank = root_ / "rank";
  Write(rank, "#!/bin/sh\nexec 1>&- 2>&-\nwhile sleep 1; do :; done\n");
  std::filesystem::permissions(rank, std::filesystem::perms::owner_all);
  const auto become_rank = [&] {
    execl(rank.c_str(), rank.c_str(), "train", run_.root().c_str(), nullptr);
    _exit(1);
  };
  const pid_t outside = fork();
  if (outside == 0) become_rank();
  const pid_t container = fork();
  if (container == 0) {
    const bool made = unshare(CLONE_NEWPID) == 0;
    const pid_t inside = made ? fork() : -1;
    if (inside == 0) become_rank();
    if (inside > 0) pause();
    _exit(1);
  }
  const absl::Cleanup end = [&] {
    for (const int64_t pid : Started()) kill(static_cast<pid_t>(pid), SIGKILL);
    kill(container, SIGKILL);
    waitpid(container, nullptr, 0);
    waitpid(outside, nullptr, 0);
  };
  bool refused = false;
  ASSERT_TRUE(Eventually([&] {
    refused = waitpid(container, nullptr, WNOHANG) == container;
    return refused || Started().size() == 2;
  }));
  if (refused) GTEST_SKIP() << "needs privileges";
  EXPECT_THAT(RankProcesses(run_), testing::ElementsAre(outside));
}

TEST_F(RunStatusTest, StopRequestWithMembersOfOtherTypesIsNone) {
  Launched(true);
  ASSERT_TRUE(RecordStopRequest(run_, now_).ok());
  ASSERT_TRUE(ReadStopRequest(run_).has_value());
  for (const char* text : {R"({"nonce":1})", R"({"nonce":"nonce","requested_at":"now"})",
                           R"({"nonce":"nonce","reason":[]})"}) {
    Write(run_.stop(), text);
    EXPECT_FALSE(ReadStopRequest(run_).has_value()) << text;
    EXPECT_EQ(Describe().state(), v1::RUN_STARTING) << text;
  }
}

TEST_F(RunStatusTest, ProcessThatDoesNotExitIsNotWaitedFor) {
  Launched(true);
  ASSERT_TRUE(run_.WriteExit({std::string(kSucceeded), "", 10}).ok());
  EXPECT_FALSE(HasEnded(Describe().state()));
  now_ += 60;
  EXPECT_EQ(Describe().state(), v1::RUN_SUCCEEDED);
}

TEST_F(RunStatusTest, RunOnAnotherMachineIsAliveWhileItSendsHeartbeats) {
  ProcessRecord record{IdentifyProcess(getpid()).value(), "nonce", now_ - 100};
  record.identity.boot_id = "elsewhere";
  ASSERT_TRUE(WriteProcessRecord(run_.process(), record).ok());
  Beat(now_ - 5);
  EXPECT_EQ(Describe().state(), v1::RUN_RUNNING);
  Beat(now_ - 2 * kHeartbeatTimeoutSeconds);
  EXPECT_EQ(Describe().state(), v1::RUN_FAILED);
  EXPECT_TRUE(RecordStopRequest(run_, now_).ok()) << "a file reaches it there";
}

TEST_F(RunStatusTest, HeartbeatFromBeforeTheClockWasSetBackIsNotFresh) {
  ProcessRecord record{IdentifyProcess(getpid()).value(), "nonce", now_ - 100};
  record.identity.boot_id = "before the reboot";
  ASSERT_TRUE(WriteProcessRecord(run_.process(), record).ok());
  Beat(now_ + 7200);
  EXPECT_EQ(Describe().state(), v1::RUN_FAILED);
  record.identity.machine = "with another clock";
  ASSERT_TRUE(WriteProcessRecord(run_.process(), record).ok());
  EXPECT_EQ(Describe().state(), v1::RUN_RUNNING);
}

// Its supervisor has not recorded an event yet.
TEST_F(RunStatusTest, RunThatIsResumedOnAnotherMachineHasNotEnded) {
  ProcessRecord record{IdentifyProcess(getpid()).value(), "second launch", now_ - 2};
  record.identity.boot_id = "elsewhere";
  record.identity.machine = "elsewhere";
  ASSERT_TRUE(WriteProcessRecord(run_.process(), record).ok());
  v1::RunEvent event;
  event.set_number(1);
  event.set_state(v1::RUN_STOPPED);
  Write(run_.events(), RunEventLine(event) + "\n");
  RunHistory history;
  history.nonce = "first launch";
  history.Apply(event);
  ASSERT_TRUE(WriteRunHistory(run_.supervision(), history, Durability::kRenamed).ok());
  EXPECT_EQ(Describe().state(), v1::RUN_STARTING);
  now_ += 60;
  EXPECT_EQ(Describe().state(), v1::RUN_STOPPED) << "that launch has failed";
}

TEST_F(RunStatusTest, LongStepOnAnotherMachineIsNotDead) {
  ProcessRecord record{IdentifyProcess(getpid()).value(), "nonce", now_ - 1000};
  record.identity.boot_id = "elsewhere";
  ASSERT_TRUE(WriteProcessRecord(run_.process(), record).ok());
  Write(run_.metrics(), "{\"step\":\"1\",\"step_seconds\":100}\n");
  Beat(now_ - 250);
  EXPECT_EQ(Describe().state(), v1::RUN_RUNNING);
  Beat(now_ - 400);
  EXPECT_EQ(Describe().state(), v1::RUN_FAILED);
}

TEST_F(RunStatusTest, LatestMetricsCarryTheNewestRouting) {
  Write(run_.metrics(),
        "{\"step\":\"1\",\"routing\":[{\"layer\":1}]}\n"
        "{\"step\":\"2\",\"routing\":[{\"layer\":2},{\"layer\":3}]}\n"
        "{\"step\":\"3\"}\n");
  const v1::StepMetrics latest = Describe().latest();
  EXPECT_EQ(latest.step(), 3);
  ASSERT_EQ(latest.routing_size(), 2);
  EXPECT_EQ(latest.routing(1).layer(), 3);
}

TEST_F(RunStatusTest, HasTheStepFromWhichARunResumes) {
  EXPECT_EQ(Describe().checkpoint_step(), 0);
  Write(run_.metrics(), "{\"step\":\"292\"}\n");
  for (const int64_t step : {100, 200}) {
    std::filesystem::create_directories(CheckpointPath(run_.checkpoints(), step));
  }
  std::filesystem::create_directories(StagingPath(run_.checkpoints(), 292, "killed"));
  EXPECT_EQ(Describe().latest().step(), 292);
  EXPECT_EQ(Describe().checkpoint_step(), 200);
}

}  // namespace run_status_test
}  // namespace braid
