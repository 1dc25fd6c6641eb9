#include "trainer/parallel/communicator.h"

#include <cerrno>
#include <cmath>
#include <numeric>
#include <thread>
#include <vector>

#include "base/file_error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "model/config/shard.h"
#include "tests/trainer/parallel/threaded_communicator.h"

namespace braid {
namespace communicator_test {

using testing::Each;

TEST(ThreadedCommunicatorTest, SumsOverRanksInRankOrder) {
  // The order of the sum 1e8 + 1 - 1e8 determines whether the small value survives.
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

TEST(ThreadedCommunicatorTest, ReducesToTheRootInRankOrder) {
  const std::vector<float> parts = {1e8f, 1.0f, -1e8f};
  std::vector<float> results(3);
  const auto statuses = RunThreadedRanks(3, [&](Communicator& ranks) {
    std::vector<float> values = {parts[ranks.rank()]};
    absl::Status status = ranks.ReduceSum(values, 1);
    results[ranks.rank()] = values[0];
    return status;
  });
  EXPECT_THAT(statuses, Each(absl::OkStatus()));
  EXPECT_EQ(results[1], (1e8f + 1.0f) - 1e8f);
}

TEST(ThreadedCommunicatorTest, GathersEveryShard) {
  for (const size_t size : {0u, 5u, 16u, 100u}) {
    std::vector<std::vector<float>> results(3);
    const auto statuses = RunThreadedRanks(3, [&](Communicator& ranks) {
      std::vector<float> values(size, -1);
      const Shard own = ShardOf(size, ranks.rank(), 3);
      std::iota(values.begin() + own.begin, values.begin() + own.end, own.begin);
      absl::Status status = ranks.AllGatherShards(values);
      results[ranks.rank()] = values;
      return status;
    });
    EXPECT_THAT(statuses, Each(absl::OkStatus()));
    std::vector<float> expected(size);
    std::iota(expected.begin(), expected.end(), 0);
    EXPECT_THAT(results, Each(expected)) << size;
  }
}

// Rank 0 uses the duplicate first, rank 1 the original: neither waits for the other.
TEST(ThreadedCommunicatorTest, ADuplicateDoesNotWaitForTheOriginal) {
  const auto statuses = RunThreadedRanks(2, [](Communicator& ranks) {
    const auto duplicate = *ranks.Duplicate();
    std::vector<float> a = {1}, b = {10};
    const auto reduce_a = [&] { return ranks.AllReduceSum(std::span<float>(a)); };
    const auto reduce_b = [&] { return duplicate->AllReduceSum(std::span<float>(b)); };
    std::thread other([&] { ranks.rank() == 0 ? (void)reduce_a() : (void)reduce_b(); });
    const absl::Status status = ranks.rank() == 0 ? reduce_b() : reduce_a();
    other.join();
    return a[0] == 2 && b[0] == 20 ? status : absl::InternalError("bad sum");
  });
  EXPECT_THAT(statuses, Each(absl::OkStatus()));
}

TEST(ThreadedCommunicatorTest, AFailingRankReleasesCallsOnDuplicates) {
  const auto statuses = RunThreadedRanks(2, [](Communicator& ranks) {
    const auto duplicate = *ranks.Duplicate();
    return ranks.rank() == 1 ? absl::InternalError("broken") : duplicate->Barrier();
  });
  EXPECT_EQ(statuses[0].code(), absl::StatusCode::kAborted);
}

TEST(CommunicatorTest, GathersNumbersOf64Bits) {
  std::vector<std::vector<uint64_t>> results(3);
  RunThreadedRanks(3, [&](Communicator& ranks) {
    auto numbers = GatherNumbers(ranks, ~uint64_t{0} - static_cast<uint64_t>(ranks.rank()));
    results[ranks.rank()] = *numbers;
    return numbers.status();
  });
  const uint64_t most = ~uint64_t{0};
  EXPECT_THAT(results, Each(std::vector<uint64_t>{most, most - 1, most - 2}));
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
  for (const absl::Status& result : results) {
    EXPECT_EQ(result.code(), absl::StatusCode::kDataLoss);
    EXPECT_EQ(result.message(), "rank 2");
    EXPECT_TRUE(IsAgreed(result));
  }
  EXPECT_FALSE(IsAgreed(absl::DataLossError("rank 2")));
}

// EIO has the code of damage, with which a run is not restarted.
TEST(CommunicatorTest, AgreesThatAFailingDeviceIsUnavailable) {
  std::vector<absl::Status> results(2);
  RunThreadedRanks(2, [&](Communicator& ranks) {
    const absl::Status mine =
        ranks.rank() == 1 ? SystemError("write", "/a", EIO) : absl::OkStatus();
    results[ranks.rank()] = AgreeOnStatus(ranks, mine);
    return absl::OkStatus();
  });
  for (const absl::Status& result : results) {
    EXPECT_TRUE(absl::IsUnavailable(result)) << result;
    EXPECT_THAT(std::string(result.message()), testing::HasSubstr("Input/output error"));
  }
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

}  // namespace communicator_test
}  // namespace braid
