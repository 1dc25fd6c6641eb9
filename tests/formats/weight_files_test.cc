#include "formats/weight_files.h"

#include <gtest/gtest.h>

#include <numeric>
#include <random>

namespace braid {
namespace weight_files_test {

TEST(PlanWeightFilesTest, FillsFilesInOrder) {
  EXPECT_EQ(PlanWeightFiles(std::vector<int64_t>{4, 4, 4, 1}, 8), (std::vector<size_t>{2, 2}));
  EXPECT_EQ(PlanWeightFiles(std::vector<int64_t>{9, 1, 9, 0}, 8), (std::vector<size_t>{1, 1, 2}));
  EXPECT_EQ(PlanWeightFiles(std::vector<int64_t>{1, 2, 3}, 100), (std::vector<size_t>{3}));
  EXPECT_EQ(PlanWeightFiles({}, 8), std::vector<size_t>());
}

TEST(PlanWeightFilesTest, FilesFitTheLimitAndAdjacentFilesCannotBeMerged) {
  std::mt19937 random(3);
  for (int trial = 0; trial < 200; ++trial) {
    std::vector<int64_t> bytes(random() % 20 + 1);
    for (int64_t& b : bytes) b = random() % 50;
    const int64_t limit = random() % 60 + 1;
    const std::vector<size_t> counts = PlanWeightFiles(bytes, limit);
    size_t at = 0;
    for (const size_t count : counts) {
      ASSERT_GT(count, 0u);
      const auto begin = bytes.begin() + static_cast<int64_t>(at);
      const int64_t size = std::accumulate(begin, begin + static_cast<int64_t>(count), int64_t{0});
      // Exceeds the limit only if its first tensor is larger than the limit.
      EXPECT_TRUE(size <= limit || size == *begin);
      at += count;
      const bool last = at == bytes.size();
      EXPECT_TRUE(last || size + bytes[at] > limit);
    }
    EXPECT_EQ(at, bytes.size());
  }
}

}  // namespace weight_files_test
}  // namespace braid
