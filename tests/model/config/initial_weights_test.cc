#include "model/config/initial_weights.h"

#include <cmath>
#include <vector>

#include "gtest/gtest.h"

namespace braid {
namespace initial_weights_test {

std::vector<float> Fill(const std::string& name, uint64_t seed, int64_t size, double std) {
  std::vector<float> values(size);
  FillInitialValues(
      {.name = name, .group = "", .shape = {size}, .offset = 0, .size = size, .initial_std = std},
      seed, values);
  return values;
}

TEST(InitialWeightsTest, SameSeedAndNameGiveTheSameBits) {
  EXPECT_EQ(Fill("a", 1, 1001, 0.5), Fill("a", 1, 1001, 0.5));
}

TEST(InitialWeightsTest, AnotherSeedOrNameGivesUnrelatedValues) {
  const std::vector<float> a = Fill("a", 1, 10000, 1);
  for (const std::vector<float>& b : {Fill("a", 2, 10000, 1), Fill("b", 1, 10000, 1)}) {
    double product = 0;
    for (size_t i = 0; i < a.size(); ++i) product += a[i] * b[i];
    EXPECT_LT(std::abs(product / static_cast<double>(a.size())), 0.05);
  }
}

TEST(InitialWeightsTest, IsNormalWithTheGivenDeviation) {
  const std::vector<float> values = Fill("w", 3, 200001, 0.25);
  double sum = 0, squares = 0, fourths = 0;
  for (double v : values) {
    sum += v;
    squares += v * v;
    fourths += v * v * v * v;
  }
  const auto n = static_cast<double>(values.size());
  EXPECT_NEAR(sum / n, 0, 0.003);
  EXPECT_NEAR(std::sqrt(squares / n), 0.25, 0.002);
  EXPECT_NEAR(fourths / n / std::pow(squares / n, 2), 3, 0.1);
}

TEST(InitialWeightsTest, ZeroDeviationMeansOnes) {
  EXPECT_EQ(Fill("norm", 3, 3, 0), std::vector<float>(3, 1.0f));
}

}  // namespace initial_weights_test
}  // namespace braid
