#include "runs/instance_schedule.h"

#include <algorithm>
#include <set>

#include "gtest/gtest.h"

namespace braid {
namespace instance_schedule_test {

std::vector<int64_t> Sequence(const InstanceSchedule& schedule, int64_t batch, int64_t count) {
  std::vector<int64_t> instances;
  for (int64_t i = 0; i < count; ++i) instances.push_back(schedule.Instance(i / batch, i % batch));
  return instances;
}

TEST(PermutedIndexTest, IsABijection) {
  for (uint64_t size : {1u, 2u, 3u, 4u, 5u, 17u, 64u, 100u, 1025u}) {
    for (uint64_t key : {0u, 1u, 99u}) {
      std::set<uint64_t> seen;
      for (uint64_t i = 0; i < size; ++i) seen.insert(PermutedIndex(i, size, key));
      EXPECT_EQ(seen.size(), size);
      EXPECT_EQ(*seen.rbegin(), size - 1);
    }
  }
}

TEST(PermutedIndexTest, OriginalIndexInvertsIt) {
  for (uint64_t size : {1u, 2u, 3u, 5u, 17u, 64u, 100u, 1025u}) {
    for (uint64_t key : {0u, 1u, 99u}) {
      for (uint64_t i = 0; i < size; ++i) {
        ASSERT_EQ(OriginalIndex(PermutedIndex(i, size, key), size, key), i) << size;
      }
    }
  }
}

// Over many keys, every index is mapped to every other about equally often.
TEST(PermutedIndexTest, SpreadsEvenly) {
  constexpr int kSize = 10, kKeys = 20000;
  std::vector<int> counts(kSize);
  for (uint64_t key = 0; key < kKeys; ++key) ++counts[PermutedIndex(3, kSize, key)];
  for (int count : counts) EXPECT_NEAR(count, kKeys / kSize, 200);
}

TEST(InstanceScheduleTest, SeesEveryInstanceOnceAnEpoch) {
  for (int64_t n : {1, 7, 40}) {
    const InstanceSchedule schedule("key", 3, n, 4);
    const std::vector<int64_t> all = Sequence(schedule, 4, 3 * n);
    for (int64_t epoch = 0; epoch < 3; ++epoch) {
      std::vector<int64_t> one(all.begin() + epoch * n, all.begin() + (epoch + 1) * n);
      std::ranges::sort(one);
      for (int64_t i = 0; i < n; ++i) EXPECT_EQ(one[i], i);
    }
  }
}

TEST(InstanceScheduleTest, DependsOnKeySeedAndEpoch) {
  const auto base = Sequence(InstanceSchedule("key", 3, 50, 4), 4, 100);
  EXPECT_EQ(base, Sequence(InstanceSchedule("key", 3, 50, 4), 4, 100));
  EXPECT_NE(base, Sequence(InstanceSchedule("key", 4, 50, 4), 4, 100));
  EXPECT_NE(base, Sequence(InstanceSchedule("other", 3, 50, 4), 4, 100));
  EXPECT_FALSE(std::equal(base.begin(), base.begin() + 50, base.begin() + 50));
}

TEST(InstanceScheduleTest, DoesNotDependOnTheBatchSize) {
  EXPECT_EQ(Sequence(InstanceSchedule("key", 3, 50, 4), 4, 100),
            Sequence(InstanceSchedule("key", 3, 50, 7), 7, 100));
}

TEST(InstanceScheduleTest, FindsTheStepsOfAnInstanceAsASearchDoes) {
  for (int64_t n : {1, 3, 10, 41}) {
    for (int64_t batch : {1, 4, 25}) {
      const InstanceSchedule schedule("key", 5, n, batch);
      for (int64_t num_steps : {1, 2, 17}) {
        std::vector<std::vector<int64_t>> expected(static_cast<size_t>(n));
        for (int64_t step = 0; step < num_steps; ++step) {
          const std::vector<int64_t> instances = schedule.Instances(step, 0, 1);
          for (int64_t i : std::set<int64_t>(instances.begin(), instances.end())) {
            expected[static_cast<size_t>(i)].push_back(step);
          }
        }
        for (int64_t i = 0; i < n; ++i) {
          EXPECT_EQ(schedule.StepsOf(i, num_steps), expected[static_cast<size_t>(i)]);
        }
      }
    }
  }
}

TEST(InstanceScheduleTest, RanksShareTheBatchInOrder) {
  const InstanceSchedule schedule("key", 3, 50, 7);
  for (int world_size : {1, 2, 3, 7}) {
    for (int64_t step : {0, 5, 20}) {
      std::vector<int64_t> joined;
      for (int rank = 0; rank < world_size; ++rank) {
        const auto part = schedule.Instances(step, rank, world_size);
        EXPECT_GE(part.size(), 7u / world_size);
        EXPECT_LE(part.size(), 7u / world_size + 1);
        joined.insert(joined.end(), part.begin(), part.end());
      }
      EXPECT_EQ(joined, schedule.Instances(step, 0, 1));
    }
  }
}

}  // namespace instance_schedule_test
}  // namespace braid
