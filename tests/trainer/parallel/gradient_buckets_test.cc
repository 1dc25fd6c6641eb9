#include "trainer/parallel/gradient_buckets.h"

#include <algorithm>
#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace braid {
namespace gradient_buckets_test {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(CutGradientsTest, GoesFromTheEndAndStaysInsideShards) {
  // Shards of 48, 48 and 4 elements.
  EXPECT_THAT(CutGradients(100, 40, 3),
              ElementsAre(GradientBucket{{96, 100}, 2}, GradientBucket{{56, 96}, 1},
                          GradientBucket{{48, 56}, 1}, GradientBucket{{8, 48}, 0},
                          GradientBucket{{0, 8}, 0}));
  EXPECT_THAT(CutGradients(0, 40, 3), IsEmpty());
}

TEST(CutGradientsTest, CoversEveryElementOnceWithItsOwner) {
  for (const size_t size : {1u, 16u, 17u, 1000u, 4096u}) {
    for (const int world_size : {1, 2, 3, 4, 7}) {
      size_t end = size;
      for (const GradientBucket& bucket : CutGradients(size, 100, world_size)) {
        const Shard owned = ShardOf(size, bucket.owner, world_size);
        EXPECT_EQ(bucket.range.end, end);
        EXPECT_LE(bucket.range.size(), 100u);
        EXPECT_GE(bucket.range.begin, owned.begin);
        EXPECT_LE(bucket.range.end, owned.end);
        end = bucket.range.begin;
      }
      EXPECT_EQ(end, 0u);
    }
  }
}

// Compares with counting the elements of every bucket after each part.
TEST(BucketReadinessTest, MatchesTheSlowCountForPartsInAnyOrder) {
  std::mt19937 random(3);
  for (int round = 0; round < 50; ++round) {
    const size_t size = 1 + random() % 500;
    BucketReadiness readiness(CutGradients(size, 1 + random() % 90, 1 + round % 4));
    std::vector<Shard> parts;
    for (size_t begin = 0; begin < size;) {
      const size_t end = std::min<size_t>(size, begin + 1 + random() % 60);
      parts.push_back({begin, end});
      begin = end;
    }
    std::shuffle(parts.begin(), parts.end(), random);
    readiness.Reset();
    std::vector<bool> complete(size);
    for (const Shard& part : parts) {
      readiness.Add(part);
      std::fill(complete.begin() + part.begin, complete.begin() + part.end, true);
      size_t expected = 0;
      for (const GradientBucket& b : readiness.buckets()) {
        const auto first = complete.begin() + b.range.begin, last = complete.begin() + b.range.end;
        if (std::find(first, last, false) != last) break;
        ++expected;
      }
      ASSERT_EQ(readiness.num_ready(), expected);
    }
    EXPECT_EQ(readiness.num_ready(), readiness.buckets().size());
  }
}

TEST(BucketReadinessTest, AddAllCompletesWhatIsLeft) {
  BucketReadiness readiness(CutGradients(100, 10, 2));
  readiness.Add({90, 100});
  EXPECT_EQ(readiness.num_ready(), 1u);
  readiness.AddAll();
  EXPECT_EQ(readiness.num_ready(), readiness.buckets().size());
  readiness.Reset();
  EXPECT_EQ(readiness.num_ready(), 0u);
}

}  // namespace gradient_buckets_test
}  // namespace braid
