#include "trainer/communicator.h"

#include <cmath>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "trainer/threaded_communicator.h"

namespace braid {
namespace {

using testing::Each;

TEST(ThreadedCommunicatorTest, SumsOverRanksInRankOrder) {
  // Whether the small value survives depends on the order: 1e8 + 1 - 1e8.
  const std::vector<float> parts = {1e8f, 1.0f, -1e8f};
  std::vector<float> results(3);
  const auto statuses = RunThreadedRanks(3, [&](Communicator& ranks) {
    for (int repeat = 0; repeat < 50; ++repeat) {
      std::vector<float> values = {parts[ranks.rank()], 2.0f};
      absl::Status status = ranks.AllReduceSum(std::span<float>(values));
      if (!status.ok() || values[1] != 6.0f) return absl::InternalError("bad sum");
      results[ranks.rank()] = values[0];
    }
    return absl::OkStatus();
  });
  EXPECT_THAT(statuses, Each(absl::OkStatus()));
  EXPECT_THAT(results, Each((1e8f + 1.0f) - 1e8f));
}

TEST(CommunicatorTest, BroadcastsText) {
  std::vector<std::string> results(3);
  RunThreadedRanks(3, [&](Communicator& ranks) {
    auto text = BroadcastText(ranks, "from " + std::to_string(ranks.rank()), 1);
    results[ranks.rank()] = *text;
    return text.status();
  });
  EXPECT_THAT(results, Each("from 1"));
}

TEST(CommunicatorTest, AgreesOnTheStatusOfTheLowestFailedRank) {
  std::vector<absl::Status> results(4);
  RunThreadedRanks(4, [&](Communicator& ranks) {
    const int rank = ranks.rank();
    const absl::Status mine =
        rank >= 2 ? absl::DataLossError("rank " + std::to_string(rank)) : absl::OkStatus();
    results[rank] = AgreeOnStatus(ranks, mine);
    return absl::OkStatus();
  });
  EXPECT_THAT(results, Each(absl::DataLossError("rank 2")));
}

TEST(CommunicatorTest, AgreesThatAllIsWell) {
  const auto statuses = RunThreadedRanks(
      2, [](Communicator& ranks) { return AgreeOnStatus(ranks, absl::OkStatus()); });
  EXPECT_THAT(statuses, Each(absl::OkStatus()));
}

TEST(CommunicatorTest, OneRankStopsAll) {
  std::vector<int> stopped(3);
  RunThreadedRanks(3, [&](Communicator& ranks) {
    stopped[ranks.rank()] = *AnyRank(ranks, ranks.rank() == 1) && !*AnyRank(ranks, false);
    return absl::OkStatus();
  });
  EXPECT_THAT(stopped, Each(1));
}

TEST(ThreadedCommunicatorTest, AFailingRankReleasesTheOthers) {
  const auto statuses = RunThreadedRanks(3, [&](Communicator& ranks) {
    return ranks.rank() == 2 ? absl::InternalError("broken") : ranks.Barrier();
  });
  EXPECT_EQ(statuses[0].code(), absl::StatusCode::kAborted);
  EXPECT_EQ(statuses[1].code(), absl::StatusCode::kAborted);
  EXPECT_EQ(statuses[2].code(), absl::StatusCode::kInternal);
}

}  // namespace
}  // namespace braid
