#include "trainer/rank_heartbeat.h"

#include <poll.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>

#include "gtest/gtest.h"
#include "model/kernels/phase_times.h"
#include "tests/trainer/tiny_run.h"

namespace braid {
namespace rank_heartbeat_test {

class RankHeartbeatTest : public testing::Test {
 protected:
  v1::Heartbeat Written() {
    EXPECT_TRUE(heartbeat_.Beat(/*always=*/true).ok());
    return directory_.ReadHeartbeats().at(0);
  }

  // Puts a file in the place of the directory, even while the thread writes.
  void Block() {
    const std::filesystem::path path = directory_.heartbeats();
    for (int i = 0; !std::filesystem::is_regular_file(path); ++i) {
      std::filesystem::rename(path, path.string() + std::to_string(i) + (blocked_ ? "b" : "a"));
      std::ofstream(path) << "in the way";
    }
    blocked_ = true;
  }

  bool blocked_ = false;
  const RunDirectory directory_{NewDirectory("run")};
  double now_ = 100;
  std::atomic<int> calls_ = 0, written_first_ = 0;  // must outlive the thread
  RankHeartbeat heartbeat_{directory_, 3, "nonce", [this] { return now_; }, 2};
};

TEST_F(RankHeartbeatTest, ReportsRankStepAndHost) {
  heartbeat_.SetStep(7);
  const v1::Heartbeat beat = Written();
  EXPECT_EQ(beat.rank(), 3);
  EXPECT_EQ(beat.nonce(), "nonce");
  EXPECT_EQ(beat.step(), 7);
  EXPECT_EQ(beat.time(), 100);
  EXPECT_FALSE(beat.host().empty());
  EXPECT_EQ(beat.phase(), "opening");
}

TEST_F(RankHeartbeatTest, OwnWorkIsTheMeanOfTheLastSteps) {
  heartbeat_.CompleteStep(1, 1);
  EXPECT_EQ(Written().busy_seconds(), 0) << "not enough steps yet";
  heartbeat_.CompleteStep(2, 2);
  heartbeat_.CompleteStep(3, 4);
  EXPECT_DOUBLE_EQ(Written().busy_seconds(), 3);
}

TEST_F(RankHeartbeatTest, BeatsBetweenStepsOnceASecond) {
  Written();
  now_ += 0.5;
  heartbeat_.SetStep(1);
  ASSERT_TRUE(heartbeat_.Beat(/*always=*/false).ok());
  EXPECT_EQ(directory_.ReadHeartbeats().at(0).step(), 0);
  now_ += 0.5;
  ASSERT_TRUE(heartbeat_.Beat(/*always=*/false).ok());
  EXPECT_EQ(directory_.ReadHeartbeats().at(0).step(), 1);
}

// Waiting for other ranks is reported as "communication" within every phase, and that phase
// afterwards.
TEST_F(RankHeartbeatTest, ShowsPhasesOfTheTrainingThread) {
  heartbeat_.ShowPhases();
  {
    const ScopedShownPhase waiting(Phase::kCommunication);
    EXPECT_EQ(Written().phase(), "communication");
  }
  EXPECT_EQ(Written().phase(), "opening");
  heartbeat_.BeginSteps();
  EXPECT_EQ(Written().phase(), "other");
  const ScopedPhase phase(Phase::kCheckpoint);
  {
    const ScopedShownPhase waiting(Phase::kCommunication);
    EXPECT_EQ(Written().phase(), "communication");
  }
  EXPECT_EQ(Written().phase(), "checkpoint");
}

TEST_F(RankHeartbeatTest, BeatsInTheBackground) {
  heartbeat_.BeatInBackground([&] { ++calls_; });
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (calls_ < 2 && std::chrono::steady_clock::now() < deadline) poll(nullptr, 0, 2);
  EXPECT_GT(calls_, 1);
  EXPECT_EQ(directory_.ReadHeartbeats().at(0).rank(), 3);
}

// A superseded rank must not overwrite the heartbeat of the rank that replaced it.
TEST_F(RankHeartbeatTest, CallsBeforeBeatBeforeEveryWrite) {
  heartbeat_.BeatInBackground([&] {
    if (calls_++ == 0 && !directory_.ReadHeartbeats().empty()) written_first_ = 1;
  });
  ASSERT_TRUE(heartbeat_.Beat(/*always=*/true).ok());
  EXPECT_GT(calls_, 0);
  EXPECT_EQ(written_first_, 0);
}

// Some failures are tolerated, as when a file server restarts, but not endless ones.
TEST_F(RankHeartbeatTest, FewFailedBeatsDoNotEndTraining) {
  heartbeat_.BeatInBackground([] {});
  ASSERT_TRUE(heartbeat_.Beat(/*always=*/true).ok());
  Block();
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(heartbeat_.Beat(/*always=*/true).ok());
  std::filesystem::remove(directory_.heartbeats());
  EXPECT_TRUE(heartbeat_.Beat(/*always=*/true).ok());
  Block();
  absl::Status status;
  for (int i = 0; i <= RankHeartbeat::kToleratedFailures; ++i) status = heartbeat_.Beat(true);
  EXPECT_FALSE(status.ok());
}

TEST_F(RankHeartbeatTest, ReportsOpeningAgainBeforeALongStep) {
  heartbeat_.BeginSteps();
  heartbeat_.ShowOpening();
  EXPECT_EQ(Written().phase(), "opening");
  heartbeat_.BeginSteps();
  EXPECT_EQ(Written().phase(), "other");
}

}  // namespace rank_heartbeat_test
}  // namespace braid
