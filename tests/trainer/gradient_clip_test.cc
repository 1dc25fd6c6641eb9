#include "trainer/gradient_clip.h"

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace braid {
namespace gradient_clip_test {

TEST(GradientClipTest, NormMatchesTheLongSum) {
  std::mt19937 random(5);
  std::normal_distribution<float> normal;
  for (size_t size : {0u, 1u, 1000u, 200000u}) {
    std::vector<float> values(size);
    long double sum = 0;
    for (float& x : values) {
      x = normal(random);
      sum += static_cast<long double>(x) * x;
    }
    EXPECT_NEAR(GlobalNorm(values), std::sqrt(static_cast<double>(sum)), 1e-9);
  }
}

TEST(GradientClipTest, NormShowsWhatIsNotFinite) {
  std::vector<float> values(100000, 1.0f);
  values[77777] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_FALSE(std::isfinite(GlobalNorm(values)));
  values[77777] = std::numeric_limits<float>::infinity();
  EXPECT_FALSE(std::isfinite(GlobalNorm(values)));
}

TEST(GradientClipTest, ClipsOnlyAboveTheLimit) {
  EXPECT_DOUBLE_EQ(ClipFactor(0.5, 1.0), 1.0);
  EXPECT_NEAR(ClipFactor(4.0, 1.0), 0.25, 1e-6);
  EXPECT_DOUBLE_EQ(ClipFactor(4.0, -1.0), 1.0);
}

}  // namespace gradient_clip_test
}  // namespace braid
