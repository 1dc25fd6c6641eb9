#include "control/supervision/run_event_log.h"

#include <gmock/gmock.h>

#include <random>

#include "base/atomic_file.h"
#include "tests/control/control_fixture.h"

namespace braid {
namespace run_event_log_test {

using testing::HasSubstr;

v1::RunEvent StateEvent(v1::RunState state) {
  v1::RunEvent event;
  event.set_state(state);
  event.set_message("a message");
  return event;
}
v1::RunEvent StepEvent(int64_t step) {
  v1::RunEvent event;
  event.mutable_metrics()->set_step(step);
  return event;
}

class RunEventLogTest : public ControlFixture {
 protected:
  void Begin() {
    auto log = RunEventLog::Open(path_).value();
    for (v1::RunState state : {v1::RUN_STARTING, v1::RUN_RUNNING}) {
      v1::RunEvent event = StateEvent(state);
      ASSERT_TRUE(log->Append(&event).ok());
    }
  }
  std::string Text() const { return ReadFile(path_).value(); }

  const std::filesystem::path path_ = root_ / "events.jsonl";
};

TEST_F(RunEventLogTest, NumbersAreLinesOverReopening) {
  Begin();
  for (int64_t number = 3; number < 9; ++number) {
    auto log = RunEventLog::Open(path_).value();
    EXPECT_EQ(log->last_number(), number - 1);
    EXPECT_EQ(log->state(), v1::RUN_RUNNING);
    v1::RunEvent event = StepEvent(number);
    ASSERT_TRUE(log->Append(&event).ok());
    EXPECT_EQ(event.number(), number);
    EXPECT_EQ(event.state(), v1::RUN_RUNNING);
  }
  const auto events = ReadRunEvents(path_, 0).value();
  ASSERT_EQ(events.size(), 8u);
  for (int i = 0; i < 8; ++i) EXPECT_EQ(events[i].number(), i + 1);
}

// However many bytes of the last line were written, the log continues after the line before.
TEST_F(RunEventLogTest, TornLastLineIsRemovedAtEveryLength) {
  Begin();
  const std::string whole = Text();
  const std::string torn = RunEventLine(StepEvent(1));
  for (size_t length = 0; length <= torn.size(); ++length) {
    Write(path_, whole + torn.substr(0, length));
    EXPECT_EQ(ReadNewestRunEvent(path_)->number(), 2) << "a reader does not see it";
    auto log = RunEventLog::Open(path_).value();
    v1::RunEvent event = StepEvent(7);
    ASSERT_TRUE(log->Append(&event).ok());
    EXPECT_EQ(event.number(), 3);
    ASSERT_EQ(ReadRunEvents(path_, 0).value().size(), 3u) << length;
  }
}

TEST_F(RunEventLogTest, OnlyATornLineIsAnEmptyLog) {
  Write(path_, "{\"number\"");
  auto log = RunEventLog::Open(path_).value();
  EXPECT_EQ(log->last_number(), 0);
  EXPECT_EQ(Text(), "");
}

TEST_F(RunEventLogTest, RefusesIllegalTransitionsAndAddsNothing) {
  Begin();
  auto log = RunEventLog::Open(path_).value();
  v1::RunEvent done = StateEvent(v1::RUN_SUCCEEDED);
  ASSERT_TRUE(log->Append(&done).ok());
  const std::string before = Text();
  v1::RunEvent again = StateEvent(v1::RUN_RUNNING);
  const absl::Status status = log->Append(&again);
  EXPECT_TRUE(absl::IsFailedPrecondition(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("from SUCCEEDED to RUNNING"));
  EXPECT_EQ(Text(), before);
}

// Compares with reading the whole file: any number of events of any size, from any number on.
TEST_F(RunEventLogTest, ReadsFromAnyNumberWhateverTheSizes) {
  std::mt19937 random(7);
  Begin();
  std::vector<std::string> expected = {"a message", "a message"};
  auto log = RunEventLog::Open(path_).value();
  for (int i = 0; i < 60; ++i) {
    v1::RunEvent event = StepEvent(i);
    event.set_message(std::string(random() % (i % 10 == 0 ? 200000 : 300), 'x'));
    ASSERT_TRUE(log->Append(&event).ok());
    expected.push_back(event.message());
  }
  for (int64_t after = 0; after <= std::ssize(expected); ++after) {
    const auto events = ReadRunEvents(path_, after).value();
    ASSERT_EQ(std::ssize(events), std::ssize(expected) - after);
    for (size_t i = 0; i < events.size(); ++i) {
      EXPECT_EQ(events[i].number(), after + static_cast<int64_t>(i) + 1);
      EXPECT_EQ(events[i].message(), expected[after + i]);
    }
  }
  EXPECT_EQ(ReadNewestRunEvent(path_)->number(), std::ssize(expected));
}

TEST_F(RunEventLogTest, ForeignFileIsAnError) {
  Write(path_, "{\"number\":\"1\",\"state\":\"RUN_STARTING\"}\n{\"number\":\"5\"}\n");
  EXPECT_TRUE(absl::IsDataLoss(ReadRunEvents(path_, 0).status()));
  Write(path_, "not an event\n");
  EXPECT_TRUE(absl::IsDataLoss(RunEventLog::Open(path_).status()));
}

TEST_F(RunEventLogTest, MissingFileHasNoEvents) {
  EXPECT_FALSE(ReadNewestRunEvent(path_).has_value());
  EXPECT_TRUE(ReadRunEvents(path_, 0).value().empty());
}

}  // namespace run_event_log_test
}  // namespace braid
