#include "control/supervision/run_history.h"

#include <gmock/gmock.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "control/supervision/run_event_log.h"
#include "tests/control/control_fixture.h"

namespace braid {
namespace run_history_test {

class RunHistoryTest : public ControlFixture {
 protected:
  void Append(v1::RunEvent event) {
    event.set_time(event.time() > 0 ? event.time() : (time_ += 1));
    ASSERT_TRUE(log_->Append(&event).ok());
    history_.Apply(event);
  }
  void State(v1::RunState state, double time = 0) {
    v1::RunEvent event;
    event.set_state(state);
    event.set_time(time);
    Append(event);
  }
  void Step(int64_t step, double seconds) {
    v1::RunEvent event;
    event.mutable_metrics()->set_step(step);
    event.mutable_metrics()->set_step_seconds(seconds);
    Append(event);
  }
  void Incident(int64_t resumed_step) {
    v1::RunEvent event;
    event.set_state(v1::RUN_RESTARTING);
    event.mutable_incident()->set_resumed_step(resumed_step);
    Append(event);
    State(v1::RUN_STARTING);
  }

  const std::filesystem::path events_ = root_ / "events.jsonl";
  std::unique_ptr<RunEventLog> log_ = RunEventLog::Open(events_).value();
  RunHistory history_;
  double time_ = 100;
};

TEST_F(RunHistoryTest, RestartsCountFromTheLastNewCheckpoint) {
  State(v1::RUN_STARTING);
  EXPECT_EQ(history_.RestartsBefore(0), 0);
  Incident(0);
  Incident(0);
  EXPECT_EQ(history_.RestartsBefore(0), 2);
  EXPECT_EQ(history_.RestartsBefore(50), 0);
  Incident(50);
  EXPECT_EQ(history_.RestartsBefore(50), 1);
  EXPECT_EQ(history_.run.attempts(), 4);
}

TEST_F(RunHistoryTest, KeepsTheNewestValidationAndSpikes) {
  for (int step = 1; step <= 30; ++step) {
    v1::RunEvent event;
    event.mutable_metrics()->set_step(step);
    event.mutable_metrics()->mutable_spike()->set_step(step);
    if (step % 10 == 0) event.mutable_metrics()->mutable_validation()->set_best_step(step);
    history_.Apply(event);
  }
  EXPECT_EQ(history_.run.spikes_size(), kKeptIncidents);
  EXPECT_EQ(history_.run.spikes().rbegin()->step(), 30);
  EXPECT_EQ(history_.run.validation().best_step(), 30);
}

TEST_F(RunHistoryTest, EffectiveTimeExcludesPausesOfAStoppedRun) {
  State(v1::RUN_STARTING, 1000);
  State(v1::RUN_RUNNING, 1010);
  Step(1, 30);
  Step(2, 30);
  State(v1::RUN_STOPPED, 1100);
  EXPECT_DOUBLE_EQ(history_.EffectiveTrainingTime(5000), 0.6);
  State(v1::RUN_STARTING, 9100);
  Step(3, 60);
  EXPECT_DOUBLE_EQ(history_.EffectiveTrainingTime(9200), 0.6);
}

// Starting from no file or from any earlier supervision.json, the log gives the same summary.
TEST_F(RunHistoryTest, SummaryFollowsFromTheLogFromAnyPoint) {
  std::vector<std::string> saved;
  const std::filesystem::path file = root_ / "supervision.json";
  const auto save = [&] {
    const auto path = root_ / absl::StrCat("saved-", saved.size());
    ASSERT_TRUE(WriteRunHistory(path, history_, Durability::kRenamed).ok());
    saved.push_back(path);
  };
  std::mt19937 random(3);
  State(v1::RUN_STARTING);
  for (int64_t step = 1; step <= 40; ++step) {
    Step(step, 0.25);
    if (random() % 4 == 0) Incident(step / 10 * 10);
    if (random() % 3 == 0) save();
  }
  State(v1::RUN_SUCCEEDED);
  save();
  saved.push_back(root_ / "none");
  for (const std::string& earlier : saved) {
    const RunHistory loaded = LoadRunHistory(earlier, events_).value();
    EXPECT_EQ(loaded.run.DebugString(), history_.run.DebugString());
    EXPECT_EQ(loaded.useful_seconds, history_.useful_seconds);
    EXPECT_EQ(loaded.restarts, history_.restarts);
    EXPECT_EQ(loaded.restart_step, history_.restart_step);
    EXPECT_EQ(loaded.newest_step, 40);
  }
}

}  // namespace run_history_test
}  // namespace braid
