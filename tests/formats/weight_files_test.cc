#include "formats/weight_files.h"

#include <gtest/gtest.h>

#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "tests/base/scratch_directory.h"
#include "tests/base/status_matchers.h"

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

// Reading refuses such values, too.
TEST(WriteWeightFilesTest, RefusesValuesThatTheFileCannotHold) {
  const ScratchDirectory scratch;
  const auto written = [&](DType dtype, float value) {
    const std::vector<float> values = {1, value};
    return WriteWeightFiles(
               scratch.path(),
               {.tensors = {{"w", dtype, {2}}},
                .values = [&](const TensorInfo&) { return std::span<const float>(values); },
                .max_file_bytes = 100})
        .status();
  };
  constexpr float kLargest = std::numeric_limits<float>::max();
  EXPECT_OK(written(DType::kF32, kLargest));
  EXPECT_FAILS(written(DType::kBF16, kLargest), absl::StatusCode::kOutOfRange, "tensor w",
               "element 1", "does not fit bfloat16");
  EXPECT_FAILS(written(DType::kF16, kLargest), absl::StatusCode::kOutOfRange, "bfloat16");
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
    EXPECT_FAILS(written(dtype, std::numeric_limits<float>::quiet_NaN()),
                 absl::StatusCode::kDataLoss, "tensor w, element 1: got nan");
  }
}

}  // namespace weight_files_test
}  // namespace braid
