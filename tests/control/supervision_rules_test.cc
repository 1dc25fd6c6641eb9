// The rules of supervision for hangs, slow ranks, restarts and history, with given times and
// heartbeats.
#include <gmock/gmock.h>

#include <random>

#include "control/supervision/attempt_end.h"
#include "control/supervision/heartbeat_watch.h"
#include "control/supervision/mpirun_notice.h"
#include "control/supervision/rank_hosts.h"
#include "control/supervision/restart_policy.h"
#include "control/supervision/run_event_log.h"
#include "control/supervision/run_history.h"
#include "control/supervision/slow_rank_detector.h"
#include "runs/run_spec.h"
#include "tests/control/control_fixture.h"

namespace braid {
namespace supervision_rules_test {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

v1::SupervisionConfig Defaults() {
  v1::SupervisionConfig config;
  EXPECT_TRUE(FillSupervision(&config).ok());
  return config;
}

// Two ranks per host "h0", "h1", ..., which send a heartbeat once a second.
class FakeRanks {
 public:
  explicit FakeRanks(int count) : beats_(count) {
    for (int rank = 0; rank < count; ++rank) {
      beats_[rank].set_rank(rank);
      beats_[rank].set_host(absl::StrCat("h", rank / 2));
      beats_[rank].set_nonce("n");
      beats_[rank].set_phase("communication");
    }
  }
  v1::Heartbeat& operator[](int rank) { return beats_[rank]; }

  // All ranks except `silent` send a heartbeat at `now` with `step`.
  std::vector<v1::Heartbeat>& Beat(double now, int64_t step, std::vector<int> silent = {}) {
    for (v1::Heartbeat& beat : beats_) {
      if (std::count(silent.begin(), silent.end(), beat.rank())) continue;
      beat.set_time(1e9 + 977 * beat.rank() + now);  // clocks of hosts differ
      beat.set_step(step);
    }
    return beats_;
  }

 private:
  std::vector<v1::Heartbeat> beats_;
};

std::vector<int> RanksOf(const HeartbeatWatch::Hang& hang) {
  std::vector<int> ranks;
  for (const v1::Heartbeat& beat : hang.ranks) ranks.push_back(beat.rank());
  return ranks;
}

constexpr double kLimit = 5;

// Returns the first second, up to `seconds`, at which the watch finds a hang.
struct Found {
  double at = -1;
  HeartbeatWatch::Hang hang;
};
Found WatchFor(int seconds, HeartbeatWatch* watch,
               const std::function<std::vector<v1::Heartbeat>(int second)>& beats) {
  for (int second = 1; second <= seconds; ++second) {
    watch->Look(beats(second), second);
    if (const auto hang = watch->FindHang(kLimit, second)) return {double(second), *hang};
  }
  return {};
}

TEST(HangLimitTest, IsTheLongerOfTheSettingAndThreeLongSteps) {
  const v1::SupervisionConfig config = Defaults();
  EXPECT_DOUBLE_EQ(HangLimit(config, {}), 30);
  std::vector<double> steps(99, 1.0);
  EXPECT_DOUBLE_EQ(HangLimit(config, steps), 30);
  steps.assign(99, 20.0);
  EXPECT_DOUBLE_EQ(HangLimit(config, steps), 60);
  steps.push_back(1000);  // one of a hundred does not count
  EXPECT_DOUBLE_EQ(HangLimit(config, steps), 60);
  steps.push_back(1000);
  EXPECT_DOUBLE_EQ(HangLimit(config, steps), 3000);
}

TEST(HeartbeatWatchTest, StoppedRankIsNamedAmongThoseThatWaitForIt) {
  HeartbeatWatch watch(4, "n", {}, 0);
  FakeRanks ranks(4);
  const Found found = WatchFor(60, &watch, [&](int second) {
    return second < 20 ? ranks.Beat(second, second) : ranks.Beat(second, 20, {2});
  });
  EXPECT_EQ(found.at, 25) << "last seen at 19, limit 5";
  EXPECT_THAT(RanksOf(found.hang), ElementsAre(2));
  EXPECT_THAT(found.hang.cause, HasSubstr("rank 2 on h1"));
  EXPECT_THAT(found.hang.cause, HasSubstr("3 other ranks report"));
}

TEST(HeartbeatWatchTest, RankThatDoesNotWaitIsTheOneThatHangs) {
  HeartbeatWatch watch(4, "n", {}, 0);
  FakeRanks ranks(4);
  ranks[3].set_phase("data");
  const Found found =
      WatchFor(60, &watch, [&](int second) { return ranks.Beat(second, std::min(second, 10)); });
  EXPECT_EQ(found.at, 16);
  EXPECT_THAT(RanksOf(found.hang), ElementsAre(3));
  EXPECT_THAT(found.hang.cause, HasSubstr("rank 3 on h1 in phase data, while 3 other ranks wait"));
}

TEST(HeartbeatWatchTest, WhenAllWaitTheLinksAreSuspect) {
  HeartbeatWatch watch(4, "n", {}, 0);
  FakeRanks ranks(4);
  const Found found =
      WatchFor(60, &watch, [&](int second) { return ranks.Beat(second, std::min(second, 10)); });
  EXPECT_EQ(found.at, 16);
  EXPECT_TRUE(found.hang.all_wait);
  EXPECT_THAT(found.hang.ranks, IsEmpty());
}

TEST(HeartbeatWatchTest, LongPhasesAreNotHangs) {
  for (const char* phase : {"opening", "checkpoint"}) {
    HeartbeatWatch watch(2, "n", {.long_phase_seconds = 100}, 0);
    FakeRanks ranks(2);
    ranks[0].set_phase(phase);
    const Found found =
        WatchFor(200, &watch, [&](int second) { return ranks.Beat(second, std::min(second, 10)); });
    EXPECT_EQ(found.at, 111) << phase;
    EXPECT_THAT(RanksOf(found.hang), ElementsAre(0));
  }
}

// A rank that is stopped in a long phase is a hang.
TEST(HeartbeatWatchTest, SilenceInALongPhaseIsAHang) {
  HeartbeatWatch watch(2, "n", {}, 0);
  FakeRanks ranks(2);
  ranks[0].set_phase("opening");
  const Found found = WatchFor(60, &watch, [&](int second) {
    return second < 10 ? ranks.Beat(second, 0) : ranks.Beat(second, 0, {1});
  });
  EXPECT_EQ(found.at, 15);
  EXPECT_THAT(RanksOf(found.hang), ElementsAre(1));
}

// Steps may be so short that the first heartbeat after opening comes after many of them.
TEST(HeartbeatWatchTest, StepSeenElsewhereEndsTheFirstStep) {
  HeartbeatWatch watch(1, "n", {.first_step_seconds = 40}, 0);
  v1::Heartbeat beat;
  beat.set_nonce("n");
  beat.set_step(5);
  beat.set_phase("opening");
  watch.Look(std::vector{beat}, 0);
  beat.set_step(65);
  beat.set_phase("communication");
  for (int second = 1; second <= 12; ++second) {
    beat.set_time(second);
    watch.Look(std::vector{beat}, second);
  }
  EXPECT_FALSE(watch.FindHang(5, 12)) << "it could be the first step";
  watch.SawStep();
  EXPECT_TRUE(watch.FindHang(5, 12));
}

TEST(HeartbeatWatchTest, FirstStepOfAnAttemptMayTakeLonger) {
  HeartbeatWatch watch(2, "n", {.first_step_seconds = 40}, 0);
  FakeRanks ranks(2);
  ranks[0].set_phase("ffn");
  const Found found = WatchFor(100, &watch, [&](int second) { return ranks.Beat(second, 7); });
  EXPECT_EQ(found.at, 42);
}

TEST(HeartbeatWatchTest, RanksThatNeverReportAreNamedByNumber) {
  HeartbeatWatch watch(3, "n", {.launch_seconds = 20}, 0);
  FakeRanks ranks(3);
  const Found found = WatchFor(60, &watch, [&](int second) {
    std::vector<v1::Heartbeat> beats = ranks.Beat(second, 0);
    beats.erase(beats.begin() + 1);
    return beats;
  });
  EXPECT_EQ(found.at, 21);
  EXPECT_THAT(found.hang.cause, HasSubstr("ranks 1 within"));
}

TEST(HeartbeatWatchTest, HeartbeatsOfOtherAttemptsAreIgnored) {
  HeartbeatWatch watch(1, "n", {}, 0);
  FakeRanks ranks(1);
  ranks[0].set_nonce("before");
  EXPECT_EQ(WatchFor(60, &watch, [&](int second) { return ranks.Beat(second, second); }).at, -1);
  EXPECT_FALSE(watch.any_reported());
}

// mpirun ends the other ranks a while after one has died; until then they send heartbeats.
TEST(HeartbeatWatchTest, RanksThatFellSilentFirstAreKnown) {
  HeartbeatWatch watch(4, "n", {}, 0);
  FakeRanks ranks(4);
  for (int second = 1; second < 10; ++second) watch.Look(ranks.Beat(second, second), second);
  EXPECT_THAT(watch.SilentFirst(), IsEmpty());
  watch.Look(ranks.Beat(10, 10, {2, 3}), 10);
  EXPECT_THAT(watch.SilentFirst(), IsEmpty()) << "one heartbeat may be late";
  watch.Look(ranks.Beat(11, 10, {2, 3}), 11);
  ASSERT_EQ(watch.SilentFirst().size(), 2u);
  EXPECT_EQ(watch.SilentFirst()[0].rank(), 2);
}

// The supervisor was stopped itself, or the machine slept: then nothing is known about the ranks.
TEST(HeartbeatWatchTest, TimeWithoutLooksDoesNotCount) {
  HeartbeatWatch watch(2, "n", {}, 0);
  FakeRanks ranks(2);
  for (int second = 1; second <= 10; ++second) watch.Look(ranks.Beat(second, second), second);
  watch.Look(ranks.Beat(10, 10), 1000);
  EXPECT_FALSE(watch.FindHang(kLimit, 1000).has_value());
  watch.Look(ranks.Beat(10, 10), 1002);
  EXPECT_FALSE(watch.FindHang(kLimit, 1002).has_value());
  watch.Look(ranks.Beat(10, 10), 1003);
  EXPECT_TRUE(watch.FindHang(kLimit, 1003).has_value()) << "three of 990 s, and three more";
}

// As on a file system that takes 4 s to read all heartbeats.
TEST(HeartbeatWatchTest, SlowLooksFindHangsToo) {
  HeartbeatWatch watch(2, "n", {}, 0);
  FakeRanks ranks(2);
  double found_at = -1;
  for (int second = 4; second <= 100 && found_at < 0; second += 4) {
    watch.Look(second < 20 ? ranks.Beat(second, second) : ranks.Beat(second, 20, {1}), second);
    if (watch.FindHang(kLimit, second)) found_at = second;
  }
  EXPECT_EQ(found_at, 24) << "last seen at 16; 3 of each 4 s count";
}

// While a rank opens, its step jumps from 0 to that of the checkpoint; then the first step takes
// long.
TEST(HeartbeatWatchTest, StepOfTheCheckpointIsNotProgress) {
  for (const int seen : {10, 11}) {  // whether rank 0 is still seen opening at step 1000
    HeartbeatWatch watch(2, "n", {.first_step_seconds = 40}, 0);
    FakeRanks ranks(2);
    const Found found = WatchFor(100, &watch, [&](int second) {
      ranks[0].set_phase(second < seen ? "opening" : "ffn");
      return ranks.Beat(second, second < 10 ? 0 : 1000);
    });
    EXPECT_EQ(found.at, 51);
  }
}

TEST(RestartPauseTest, DoublesUpToALimitAndIsBounded) {
  v1::SupervisionConfig config = Defaults();
  EXPECT_EQ(RestartPause(config, true, 0), 1);
  EXPECT_EQ(RestartPause(config, true, 2), 4);
  EXPECT_EQ(RestartPause(config, true, 3), std::nullopt);
  EXPECT_EQ(RestartPause(config, false, 0), std::nullopt);
  config.set_max_restarts(100);
  EXPECT_EQ(RestartPause(config, true, 60), kMaxBackoffSeconds);
  config.set_max_restarts(-1);
  EXPECT_EQ(RestartPause(config, true, 0), std::nullopt);
}

std::vector<v1::Heartbeat> Busy(const std::vector<double>& seconds) {
  FakeRanks ranks(static_cast<int>(seconds.size()));
  for (size_t rank = 0; rank < seconds.size(); ++rank) {
    ranks[static_cast<int>(rank)].set_busy_seconds(seconds[rank]);
  }
  return ranks.Beat(0, 40);
}

TEST(SlowRankDetectorTest, ReportsARankOnceUntilItHasRecovered) {
  SlowRankDetector detector(1.3);
  EXPECT_THAT(detector.Look(Busy({1, 1, 1.29, 1})), IsEmpty());
  const auto slow = detector.Look(Busy({1, 1, 1.5, 1}));
  ASSERT_EQ(slow.size(), 1u);
  EXPECT_EQ(slow[0].rank(), 2);
  EXPECT_EQ(slow[0].host(), "h1");
  EXPECT_DOUBLE_EQ(slow[0].ratio(), 1.5);
  EXPECT_EQ(slow[0].step(), 40);
  EXPECT_THAT(detector.Look(Busy({1, 1, 1.2, 1})), IsEmpty());
  EXPECT_THAT(detector.Look(Busy({1, 1, 1.6, 1})), IsEmpty()) << "still the same";
  const auto recovered = detector.Look(Busy({1, 1, 1.1, 1}));
  ASSERT_EQ(recovered.size(), 1u);
  EXPECT_TRUE(recovered[0].recovered());
  EXPECT_THAT(detector.Look(Busy({1, 1, 1.1, 1})), IsEmpty());
  EXPECT_EQ(detector.Look(Busy({1, 1, 1.6, 1})).size(), 1u);
}

TEST(SlowRankDetectorTest, ReportsTheSlowerOfTwoRanks) {
  SlowRankDetector detector(1.3);
  const auto slow = detector.Look(Busy({2, 1}));
  ASSERT_EQ(slow.size(), 1u);
  EXPECT_EQ(slow[0].rank(), 0);
}

// At most one of two ranks is slow at a time, and none once the run has ended.
TEST(SlowRankDetectorTest, HistoryKeepsTheRanksThatAreSlowNow) {
  SlowRankDetector detector(1.3);
  RunHistory history;
  const auto look = [&](const std::vector<double>& seconds) {
    for (const v1::SlowRank& slow : detector.Look(Busy(seconds))) {
      v1::RunEvent event;
      event.set_state(v1::RUN_RUNNING);
      *event.mutable_slow_rank() = slow;
      history.Apply(event);
    }
    std::vector<int> ranks;
    for (const v1::SlowRank& slow : history.run.slow_ranks()) ranks.push_back(slow.rank());
    return ranks;
  };
  EXPECT_THAT(look({1.5, 1}), ElementsAre(0));
  EXPECT_THAT(look({1, 1.5}), ElementsAre(1));
  EXPECT_THAT(look({1, 1}), IsEmpty());
  EXPECT_THAT(look({1, 1.5}), ElementsAre(1));
  v1::RunEvent end;
  end.set_state(v1::RUN_SUCCEEDED);
  history.Apply(end);
  EXPECT_THAT(history.run.slow_ranks(), IsEmpty());
}

TEST(SlowRankDetectorTest, WaitsUntilAllHaveMeasured) {
  SlowRankDetector detector(1.3);
  EXPECT_THAT(detector.Look(Busy({2, 0, 1})), IsEmpty());
  EXPECT_THAT(detector.Look(Busy({2})), IsEmpty());
}

TEST(MpirunNoticeTest, ReadsBothSeriesOfOpenMpi) {
  const auto notices = ParseMpirunNotices(
      "noise\n-----\nmpirun noticed that process rank 1 with PID 4711 on node nd2 exited on signal "
      "9 (Killed).\nprterun noticed that process rank 12 with PID 1 on node a.b-c exited on\n"
      "signal 11 (Segmentation fault).\nORTE has lost communication with a remote daemon.\n\n"
      "  HNP daemon   : [[3421,0],0] on node nd1\n  Remote daemon: [[3421,0],2] on node "
      "10.0.0.3\n");
  ASSERT_EQ(notices.size(), 3u);
  EXPECT_EQ(TextOf(notices[0]), "rank 1 on nd2 was ended by signal 9");
  EXPECT_EQ(TextOf(notices[1]), "rank 12 on a.b-c was ended by signal 11");
  EXPECT_EQ(TextOf(notices[2]), "the connection to 10.0.0.3 was lost");
  EXPECT_THAT(ParseMpirunNotices(""), IsEmpty());
}

v1::LaunchConfig ThreeHosts() {
  v1::LaunchConfig launch;
  for (int host = 0; host < 3; ++host) {
    v1::HostSlots* slots = launch.add_hosts();
    slots->set_host(absl::StrCat("10.0.0.", host + 1));
    slots->set_slots(2);
  }
  return launch;
}

constexpr Reachability kYes = Reachability::kReachable;
constexpr Reachability kNo = Reachability::kUnreachable;

TEST(RankHostsTest, HostThatDoesNotAnswerIsNamedWithItsRanks) {
  FakeRanks ranks(6);
  const auto beats = ranks.Beat(0, 0);
  EXPECT_THAT(AddressesOf(ThreeHosts(), beats), ElementsAre("10.0.0.1", "10.0.0.2", "10.0.0.3"));
  const CutHosts cut = FindCutHosts(ThreeHosts(), beats, std::vector{kYes, kYes, kNo}, "h0");
  ASSERT_EQ(cut.ranks.size(), 2u);
  EXPECT_EQ(cut.ranks[0].rank(), 4);
  EXPECT_EQ(cut.ranks[1].rank(), 5);
  EXPECT_THAT(cut.cause, HasSubstr("the network link of 10.0.0.3 is down"));
}

TEST(RankHostsTest, WhenNoOtherHostAnswersTheOwnLinkIsAtFault) {
  FakeRanks ranks(6);
  const CutHosts cut =
      FindCutHosts(ThreeHosts(), ranks.Beat(0, 0), std::vector{kYes, kNo, kNo}, "h0");
  ASSERT_EQ(cut.ranks.size(), 2u);
  EXPECT_EQ(cut.ranks[0].host(), "h0");
}

TEST(RankHostsTest, WhenAllHostsAnswerNoneIsAtFault) {
  FakeRanks ranks(6);
  const CutHosts cut =
      FindCutHosts(ThreeHosts(), ranks.Beat(0, 0), std::vector{kYes, kYes, kYes}, "h0");
  EXPECT_THAT(cut.ranks, IsEmpty());
  EXPECT_THAT(cut.cause, HasSubstr("unknown"));
}

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

}  // namespace supervision_rules_test
}  // namespace braid
