// The rules of supervision for restarts, slow ranks and hosts that are cut off, with given times
// and heartbeats. Those for hangs are in supervision/heartbeat_watch_test.cc.
#include <gmock/gmock.h>

#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "control/supervision/mpirun_notice.h"
#include "control/supervision/rank_hosts.h"
#include "control/supervision/restart_policy.h"
#include "control/supervision/run_history.h"
#include "control/supervision/slow_rank_detector.h"
#include "runs/run_spec.h"
#include "tests/control/supervision/fake_ranks.h"

namespace braid {
namespace supervision_rules_test {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(RestartPauseTest, DoublesUpToALimitAndIsBounded) {
  v1::SupervisionConfig config;
  ASSERT_TRUE(FillSupervision(&config).ok());
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
constexpr Reachability kUnresolved = Reachability::kUnknown;

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

TEST(RankHostsTest, HostsWithoutAnAddressDoNotCountAsAnswering) {
  FakeRanks ranks(6);
  const CutHosts cut = FindCutHosts(ThreeHosts(), ranks.Beat(0, 0),
                                    std::vector{kYes, kUnresolved, kUnresolved}, "h0");
  EXPECT_THAT(cut.ranks, IsEmpty());
  EXPECT_THAT(cut.cause, HasSubstr("h0 cannot find the addresses of 2 of 3 hosts"));
}

}  // namespace supervision_rules_test
}  // namespace braid
