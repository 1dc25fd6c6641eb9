// Hangs, found in given heartbeats at given times.
#include "control/supervision/heartbeat_watch.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <functional>
#include <map>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runs/run_spec.h"
#include "tests/control/supervision/fake_ranks.h"

namespace braid {
namespace heartbeat_watch_test {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::vector<int> RanksOf(const HeartbeatWatch::Hang& hang) {
  std::vector<int> ranks;
  for (const v1::Heartbeat& beat : hang.ranks) ranks.push_back(beat.rank());
  return ranks;
}

constexpr double kLimit = 5;

// Returns the first second, up to `seconds`, at which the watch finds a hang. `starved` has the
// part of each second in which a rank had no processor.
struct Found {
  double at = -1;
  HeartbeatWatch::Hang hang;
};
Found WatchFor(int seconds, HeartbeatWatch* watch,
               const std::function<std::vector<v1::Heartbeat>(int second)>& beats,
               const std::map<int, double>& starved = {}) {
  for (int second = 1; second <= seconds; ++second) {
    watch->Look(beats(second), second, starved);
    if (const auto hang = watch->FindHang(kLimit, second)) return {double(second), *hang};
  }
  return {};
}

TEST(HangLimitTest, IsTheLongerOfTheSettingAndThreeLongSteps) {
  v1::SupervisionConfig config;
  ASSERT_TRUE(FillSupervision(&config).ok());
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

TEST(HeartbeatWatchTest, AHangOfASingleRankIsDescribedWithoutOtherRanks) {
  for (const char* phase : {"data", "communication"}) {
    HeartbeatWatch watch(1, "n", {}, 0);
    FakeRanks ranks(1);
    ranks[0].set_phase(phase);
    const Found found =
        WatchFor(60, &watch, [&](int second) { return ranks.Beat(second, std::min(second, 10)); });
    EXPECT_EQ(found.at, 16) << phase;
    EXPECT_THAT(RanksOf(found.hang), ElementsAre(0));
    EXPECT_FALSE(found.hang.all_wait);
    EXPECT_EQ(found.hang.cause,
              absl::StrCat("no step after 10 for 6.0 s: rank 0 on h0 in phase ", phase));
  }
  HeartbeatWatch watch(1, "n", {}, 0);
  FakeRanks ranks(1);
  const Found silent = WatchFor(60, &watch, [&](int second) {
    return second < 20 ? ranks.Beat(second, second) : ranks.Beat(second, 20, {0});
  });
  EXPECT_EQ(silent.hang.cause,
            "no heartbeat from rank 0 on h0 for 6.0 s (expected once a second), last at step 19");
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
  EXPECT_THAT(found.hang.cause, HasSubstr("from rank 1 within"));
}

TEST(HeartbeatWatchTest, FewOfThousandsOfMissingRanksAreNamed) {
  HeartbeatWatch watch(4096, "n", {.launch_seconds = 20}, 0);
  const Found found = WatchFor(60, &watch, [&](int) { return std::vector<v1::Heartbeat>(); });
  EXPECT_THAT(found.hang.cause,
              HasSubstr("from ranks 0, 1, 2, 3, 4, 5, 6, 7 and 4088 more within"));
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

// On a busy machine rank 1 sends a heartbeat in every third second only. When rank 2 dies, the last
// heartbeat of rank 1 is as old as that of rank 2, which proves nothing.
TEST(HeartbeatWatchTest, RankWhoseHeartbeatsAreOftenLateDidNotFallSilentFirst) {
  HeartbeatWatch watch(3, "n", {}, 0);
  FakeRanks ranks(3);
  for (int second = 1; second < 10; ++second) {
    const std::vector<int> late = second % 3 == 0 ? std::vector<int>{} : std::vector<int>{1};
    watch.Look(ranks.Beat(second, second, late), second);
  }
  watch.Look(ranks.Beat(10, 10, {1, 2}), 10);
  watch.Look(ranks.Beat(11, 10, {1, 2}), 11);
  ASSERT_EQ(watch.SilentFirst().size(), 1u);
  EXPECT_EQ(watch.SilentFirst()[0].rank(), 2);
  for (int second = 12; second < 14; ++second) {
    watch.Look(ranks.Beat(second, 10, {1, 2}), second);
  }
  EXPECT_EQ(watch.SilentFirst().size(), 2u) << "a longer silence than any before";
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

TEST(HeartbeatWatchTest, RankThatOtherProgramsStarveDoesNotHang) {
  HeartbeatWatch watch(2, "n", {}, 0);
  FakeRanks ranks(2);
  ranks[0].set_phase("ffn");
  const auto slow = [&](int second) { return ranks.Beat(second, second / 20); };
  EXPECT_EQ(WatchFor(200, &watch, slow, {{0, 0.95}}).at, -1) << "a step in 20 s, limit 5";
  HeartbeatWatch other(2, "n", {}, 0);
  EXPECT_EQ(WatchFor(200, &other, slow).at, 26) << "as slow without a cause";
}

TEST(HeartbeatWatchTest, HeartbeatsOfAStarvedRankMayBeLate) {
  HeartbeatWatch watch(2, "n", {}, 0);
  FakeRanks ranks(2);
  const auto late = [&](int second) {
    return second % 10 == 0 ? ranks.Beat(second, second) : ranks.Beat(second, second, {0});
  };
  EXPECT_EQ(WatchFor(100, &watch, late, {{0, 0.9}}).at, -1);
}

// As an endless loop on a machine that is busy with other programs.
TEST(HeartbeatWatchTest, StarvedRankThatSpinsForeverIsFoundWithinTenLimits) {
  HeartbeatWatch watch(1, "n", {}, 0);
  FakeRanks ranks(1);
  ranks[0].set_phase("data");
  const Found found = WatchFor(
      100, &watch, [&](int second) { return ranks.Beat(second, std::min(second, 10)); }, {{0, 1}});
  EXPECT_GT(found.at, 55);
  EXPECT_LE(found.at, 62);
  EXPECT_THAT(RanksOf(found.hang), ElementsAre(0));
}

// A rank that waits in a collective spins, and on a machine with more ranks than processors it is
// without one for a part of the time. That says nothing about the rank that it waits for.
TEST(HeartbeatWatchTest, StarvedRanksThatWaitExcuseNoOther) {
  const std::map<int, double> starved = {{0, 0.9}, {1, 0.9}, {2, 0.9}};
  FakeRanks ranks(4);
  HeartbeatWatch stopped(4, "n", {}, 0);
  const auto stop = [&](int second) {
    return second < 20 ? ranks.Beat(second, second) : ranks.Beat(second, 20, {3});
  };
  EXPECT_EQ(WatchFor(60, &stopped, stop, starved).at, 25);
  HeartbeatWatch stuck(4, "n", {}, 0);
  const auto stall = [&](int second) { return ranks.Beat(second, std::min(second, 10)); };
  ranks[3].set_phase("data");
  EXPECT_EQ(WatchFor(60, &stuck, stall, starved).at, 16);
  HeartbeatWatch cut(4, "n", {}, 0);
  ranks[3].set_phase("communication");
  EXPECT_EQ(WatchFor(60, &cut, stall, starved).at, 16);
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

}  // namespace heartbeat_watch_test
}  // namespace braid
