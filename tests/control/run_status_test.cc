#include "control/run_status.h"

#include <gmock/gmock.h>

#include "control/supervision/run_process.h"
#include "runs/checkpoint_directory.h"
#include "runs/process_identity.h"
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
