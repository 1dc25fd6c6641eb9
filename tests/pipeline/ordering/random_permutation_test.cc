#include "pipeline/ordering/random_permutation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace braid {
namespace random_permutation_test {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(RandomPermutationTest, IsThePermutationOfTheFixedGenerator) {
  // Stored datasets depend on these values, so they must never change.
  EXPECT_THAT(RandomPermutation(0, 7), IsEmpty());
  EXPECT_THAT(RandomPermutation(1, 7), ElementsAre(0));
  EXPECT_THAT(RandomPermutation(8, 7), ElementsAre(1, 4, 5, 2, 6, 0, 3, 7));
}

TEST(RandomPermutationTest, DrawsEveryPermutationEquallyOften) {
  constexpr int kDraws = 24000;
  std::map<std::vector<uint32_t>, int> counts;
  for (int seed = 0; seed < kDraws; ++seed) ++counts[RandomPermutation(4, seed)];
  ASSERT_EQ(counts.size(), 24u);
  double chi_square = 0;
  for (const auto& [permutation, count] : counts) {
    chi_square += (count - 1000.0) * (count - 1000.0) / 1000.0;
  }
  EXPECT_LT(chi_square, 49.7);  // 23 degrees of freedom, p = 0.001
}

}  // namespace random_permutation_test
}  // namespace braid
