#include "control/run_event_follower.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "control/run_event_source.h"
#include "control/supervision/run_event_log.h"

namespace braid {
namespace run_event_follower_test {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class RunEventFollowerTest : public testing::Test {
 protected:
  RunEventFollowerTest()
      : root_(std::filesystem::path(testing::TempDir()) /
              absl::StrCat("braid-events-", getpid(), "-",
                           testing::UnitTest::GetInstance()->current_test_info()->name())),
        file_(root_ / "events.jsonl") {
    std::filesystem::remove_all(root_);
    std::filesystem::create_directories(root_);
  }
  ~RunEventFollowerTest() override { std::filesystem::remove_all(root_); }

  void Add(const std::string& text) { std::ofstream(file_, std::ios::app) << text; }
  static std::string Line(int64_t number, const std::string& message = "") {
    v1::RunEvent event;
    event.set_number(number);
    event.set_message(message);
    return RunEventLine(event) + "\n";
  }
  static std::vector<int64_t> Numbers(const std::vector<v1::RunEvent>& events) {
    std::vector<int64_t> numbers;
    for (const v1::RunEvent& event : events) numbers.push_back(event.number());
    return numbers;
  }
  std::vector<int64_t> After(RunEventFollower& follower, int64_t number, int64_t bytes = 1 << 20) {
    return Numbers(follower.After(number, bytes).value());
  }

  const std::filesystem::path root_, file_;
};

TEST_F(RunEventFollowerTest, ReturnsCompleteLinesOnly) {
  RunEventFollower follower(file_);
  EXPECT_THAT(After(follower, 0), IsEmpty());
  Add(Line(1) + Line(2) + "{\"number\":\"3\"");
  EXPECT_THAT(After(follower, 0), ElementsAre(1, 2));
  EXPECT_THAT(After(follower, 2), IsEmpty());
  Add("}");
  EXPECT_THAT(After(follower, 2), IsEmpty());
  Add("\n" + Line(4));
  EXPECT_THAT(After(follower, 2), ElementsAre(3, 4));
  EXPECT_THAT(After(follower, 3), ElementsAre(4));
  EXPECT_THAT(After(follower, 9), IsEmpty());
}

TEST_F(RunEventFollowerTest, AnyNumberAndAnyLimitGiveTheSameEvents) {
  constexpr int64_t kEvents = 4000;
  std::mt19937 random(3);
  std::string text;
  for (int64_t i = 1; i <= kEvents; ++i) {
    // Some lines are longer than what is scanned at a time.
    text += Line(i, std::string(i % 500 == 0 ? 40'000 : random() % 300, 'm'));
  }
  Add(text);
  RunEventFollower follower(file_);
  for (int trial = 0; trial < 300; ++trial) {
    const int64_t after = static_cast<int64_t>(random() % (kEvents + 10));
    const int64_t bytes = 1 + static_cast<int64_t>(random() % 20'000);
    const std::vector<int64_t> numbers = After(follower, after, bytes);
    if (after >= kEvents) {
      EXPECT_THAT(numbers, IsEmpty());
      continue;
    }
    ASSERT_FALSE(numbers.empty());
    for (size_t i = 0; i < numbers.size(); ++i) {
      ASSERT_EQ(numbers[i], after + 1 + static_cast<int64_t>(i));
    }
  }
}

TEST_F(RunEventFollowerTest, NamesALineThatIsNotTheEventOfItsNumber) {
  for (const std::string& damage : {std::string("{nonsense\n"), Line(7), std::string("\n")}) {
    std::filesystem::remove(file_);
    Add(Line(1) + damage + Line(3));
    RunEventFollower follower(file_);
    const absl::Status status = follower.After(0, 1 << 20).status();
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("expected event 2"));
  }
}

TEST_F(RunEventFollowerTest, SourceEndsWithTheEventOfTheEndUnlessTheRunWasResumed) {
  v1::Run run;
  run.set_id("run-000001");
  run.set_state(v1::RUN_STOPPED);
  const auto source = OpenRunEvents(
      RunDirectory(root_), [&] { return run; }, [] { return false; });
  auto log = RunEventLog::Open(file_).value();
  const auto append = [&](v1::RunState state) {
    v1::RunEvent event;
    event.set_state(state);
    ASSERT_TRUE(log->Append(&event).ok());
  };
  append(v1::RUN_STARTING);
  append(v1::RUN_RUNNING);
  const uint64_t version = source->Version();
  auto batch = source->After(0).value();
  EXPECT_THAT(Numbers(batch.events), ElementsAre(1, 2));
  EXPECT_FALSE(batch.last);
  append(v1::RUN_STOPPED);
  EXPECT_NE(source->Version(), version);
  batch = source->After(1).value();
  EXPECT_THAT(Numbers(batch.events), ElementsAre(2, 3));
  EXPECT_TRUE(batch.last);
  EXPECT_EQ(batch.events.back().final().id(), "run-000001");
  EXPECT_EQ(batch.events.back().final().state(), v1::RUN_STOPPED);
  EXPECT_TRUE(source->After(3).value().last) << "all of it had been sent";
  run.set_state(v1::RUN_STARTING);
  EXPECT_FALSE(source->After(3).value().last) << "it is resumed, without an event so far";
  append(v1::RUN_STARTING);
  batch = source->After(1).value();
  EXPECT_THAT(Numbers(batch.events), ElementsAre(2, 3, 4));
  EXPECT_FALSE(batch.last);
  EXPECT_FALSE(batch.events[1].has_final());
}

TEST_F(RunEventFollowerTest, RunWithoutALogHasOneEventWhenItIsFoundToHaveEnded) {
  v1::Run run;
  run.set_state(v1::RUN_RUNNING);
  bool settled = false;
  int described = 0;
  const auto open = [&] {
    return OpenRunEvents(
        RunDirectory(root_), [&] { return ++described, run; }, [&] { return settled; });
  };
  auto source = open();
  const uint64_t version = source->Version();
  EXPECT_FALSE(source->After(0).value().last);
  EXPECT_EQ(described, 0) << "describing a run may block";
  run.set_state(v1::RUN_FAILED);
  settled = true;
  source = open();  // rather than wait for the next look
  EXPECT_NE(source->Version(), version);
  const auto batch = source->After(0).value();
  EXPECT_TRUE(batch.last);
  EXPECT_THAT(Numbers(batch.events), ElementsAre(1));
  EXPECT_EQ(batch.events[0].final().state(), v1::RUN_FAILED);
  EXPECT_TRUE(source->After(1).value().last);
  EXPECT_THAT(source->After(1).value().events, IsEmpty());
  EXPECT_EQ(described, 1) << "regardless of the number of watchers";
}

TEST_F(RunEventFollowerTest, EndThatIsNotInTheLogFollowsIt) {
  v1::Run run;
  run.set_state(v1::RUN_FAILED);
  run.set_error("its node died");
  bool settled = true;
  auto log = RunEventLog::Open(file_).value();
  v1::RunEvent event;
  for (const v1::RunState state : {v1::RUN_STARTING, v1::RUN_RUNNING}) {
    event.set_state(state);
    ASSERT_TRUE(log->Append(&event).ok());
  }
  const auto source = OpenRunEvents(
      RunDirectory(root_), [&] { return run; }, [&] { return settled; });
  const uint64_t version = source->Version();
  auto batch = source->After(0).value();
  EXPECT_THAT(Numbers(batch.events), ElementsAre(1, 2, 3));
  EXPECT_TRUE(batch.last);
  EXPECT_EQ(batch.events.back().final().error(), "its node died");
  EXPECT_EQ(batch.events.back().state(), v1::RUN_FAILED);
  EXPECT_THAT(Numbers(source->After(2).value().events), ElementsAre(3));
  EXPECT_TRUE(source->After(3).value().last);
  EXPECT_THAT(source->After(3).value().events, IsEmpty());

  settled = false;
  EXPECT_FALSE(source->After(2).value().last) << "it has been launched again";
  event.set_state(v1::RUN_RESTARTING);
  ASSERT_TRUE(log->Append(&event).ok());
  EXPECT_NE(source->Version(), version);
  batch = source->After(2).value();
  EXPECT_THAT(Numbers(batch.events), ElementsAre(3));
  EXPECT_FALSE(batch.last);
}

TEST_F(RunEventFollowerTest, SourceOfADeletedRunEndsWithNotFound) {
  absl::StatusOr<bool> settled = false;
  auto log = RunEventLog::Open(file_).value();
  v1::RunEvent event;
  event.set_state(v1::RUN_STARTING);
  ASSERT_TRUE(log->Append(&event).ok());
  const auto open = [&] {
    return OpenRunEvents(
        RunDirectory(root_), [] { return v1::Run(); }, [&] { return settled; });
  };
  auto source = open();
  const uint64_t version = source->Version();
  EXPECT_TRUE(source->After(0).ok());
  settled = absl::UnavailableError("the database is locked");
  source = open();
  EXPECT_EQ(source->Version(), version);
  std::filesystem::remove(file_);
  settled = absl::NotFoundError("no run run-000001");
  source = open();  // rather than wait for the next look
  EXPECT_NE(source->Version(), version);
  EXPECT_TRUE(absl::IsNotFound(source->After(0).status()));
}

}  // namespace run_event_follower_test
}  // namespace braid
