#include "conversion/unit_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "base/splitmix.h"

namespace braid {
namespace unit_order_test {

using testing::ElementsAreArray;
using testing::HasSubstr;

constexpr int64_t kUnits = 48, kDimension = 5;

std::vector<float> Rows(uint64_t seed) {
  std::vector<float> rows(kUnits * kDimension);
  for (float& value : rows) value = static_cast<float>(UnitInterval(NextSplitMix64(&seed)) - .5);
  return rows;
}

TEST(UnitOrderTest, RestoringGivesTheSameBytes) {
  const std::vector<float> rows = Rows(1);
  for (const auto split : {ExpertSplit::kContiguous, ExpertSplit::kRandom, ExpertSplit::kKeys}) {
    const auto order = SplitUnits(split, rows, kUnits, kDimension, 8, 3);
    ASSERT_TRUE(order.ok()) << order.status();
    EXPECT_TRUE(CheckUnitOrder(*order, kUnits).ok());
    for (size_t begin = 0; begin < order->size(); begin += kUnits / 8) {
      EXPECT_TRUE(std::is_sorted(order->begin() + begin, order->begin() + begin + kUnits / 8));
    }
    std::vector<float> reordered(rows.size()), restored(rows.size());
    ReorderUnits(rows, *order, reordered);
    for (int64_t unit = 0; unit < kUnits; ++unit) {
      EXPECT_TRUE(std::equal(reordered.begin() + unit * kDimension,
                             reordered.begin() + (unit + 1) * kDimension,
                             rows.begin() + (*order)[unit] * kDimension));
    }
    RestoreUnits(reordered, *order, restored);
    EXPECT_EQ(restored, rows);
  }
}

TEST(UnitOrderTest, ContiguousKeepsTheOrderAndRandomFollowsItsSeed) {
  std::vector<int32_t> ascending(kUnits);
  std::iota(ascending.begin(), ascending.end(), 0);
  const auto split = [](ExpertSplit how, uint64_t seed) {
    return SplitUnits(how, {}, kUnits, kDimension, 4, seed).value();
  };
  EXPECT_THAT(split(ExpertSplit::kContiguous, 1), ElementsAreArray(ascending));
  EXPECT_EQ(split(ExpertSplit::kRandom, 1), split(ExpertSplit::kRandom, 1));
  EXPECT_NE(split(ExpertSplit::kRandom, 1), split(ExpertSplit::kRandom, 2));
  EXPECT_NE(split(ExpertSplit::kRandom, 1), ascending);
}

TEST(UnitOrderTest, NumbersOfExpertsThatDoNotDivideAreRefusedWithTheNearest) {
  const auto refused = SplitUnits(ExpertSplit::kContiguous, {}, 48, 5, 10, 0);
  EXPECT_TRUE(absl::IsInvalidArgument(refused.status()));
  EXPECT_THAT(refused.status().message(), HasSubstr("8 and 12"));
  EXPECT_THAT(SplitUnits(ExpertSplit::kContiguous, {}, 48, 5, 100, 0).status().message(),
              HasSubstr("48"));
  EXPECT_FALSE(SplitUnits(ExpertSplit::kContiguous, {}, 48, 5, 0, 0).ok());
}

TEST(UnitOrderTest, OrdersThatAreNoPermutationAreRefused) {
  EXPECT_TRUE(CheckUnitOrder(std::vector<int32_t>{2, 0, 1}, 3).ok());
  for (const std::vector<int32_t>& order :
       std::vector<std::vector<int32_t>>{{0, 0, 1}, {0, 1}, {0, 1, 3}, {0, 1, -1}, {0, 1, 2, 3}}) {
    EXPECT_TRUE(absl::IsDataLoss(CheckUnitOrder(order, 3)));
  }
}

}  // namespace unit_order_test
}  // namespace braid
