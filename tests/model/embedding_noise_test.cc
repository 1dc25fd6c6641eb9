#include "model/embedding_noise.h"

#include <ATen/ATen.h>

#include <cmath>
#include <vector>

#include "gtest/gtest.h"
#include "tests/model/tensor_testing.h"

namespace braid {
namespace embedding_noise_test {

// Examples of 3 and 5 tokens share a sequence of 8; the bound of each follows its length.
TEST(EmbeddingNoiseTest, BoundsFollowTheLengthOfTheExample) {
  const int64_t width = 200;
  const std::vector<int64_t> instances = {7, 8};
  RoutingContext context;
  context.seed = 1;
  context.step = 4;
  context.instances = instances;
  context.embedding_noise = 5;
  const at::Tensor first = at::tensor({0, 0, 0, 3, 3, 3, 3, 3, 0, 0, 0, 0, 0, 0, 0, 0}, at::kInt);
  const at::Tensor noise = EmbeddingNoise(context, first.view({2, 8}), {2, 8}, width);
  const auto largest = [&](int64_t begin, int64_t end) {
    return noise.narrow(0, begin, end - begin).abs().max().item<double>();
  };
  const auto bound = [&](double tokens) { return 5 / std::sqrt(tokens * width); };
  const int64_t ends[] = {0, 3, 8, 16};
  for (int i = 0; i < 3; ++i) {
    const auto tokens = static_cast<double>(ends[i + 1] - ends[i]);
    EXPECT_LT(largest(ends[i], ends[i + 1]), bound(tokens) * (1 + 1e-6));
    EXPECT_GT(largest(ends[i], ends[i + 1]), .95 * bound(tokens));
  }
  EXPECT_NEAR(noise.mean().item<double>(), 0, 4 * bound(8) / std::sqrt(16. * width));
  // Without examples a sequence is one.
  const at::Tensor whole = EmbeddingNoise(context, {}, {2, 8}, width);
  EXPECT_LT(MaxDifference(whole.narrow(0, 8, 8), noise.narrow(0, 8, 8)), 1e-9);
  EXPECT_LT(whole.narrow(0, 0, 3).abs().max().item<double>(), bound(8) * (1 + 1e-6));
}

TEST(InputNoiseTest, IsBoundedAndAFunctionOfSeedTokenAndPosition) {
  const InputNoise settings = {.bound = 0.3, .seed = 7};
  const at::Tensor tokens = at::tensor({5, 9, 5, 5}, at::kLong);
  const at::Tensor positions = at::tensor({0, 1, 0, 1}, at::kLong);
  const at::Tensor noise = NoiseOfTokens(settings, tokens, positions, 500);
  EXPECT_LE(noise.abs().max().item<double>(), 0.3 * (1 + 1e-6));
  EXPECT_GT(noise.abs().max().item<double>(), 0.29);
  EXPECT_NEAR(noise.square().mean().item<double>(), 0.09 / 3, 0.002);
  EXPECT_TRUE(at::equal(noise[0], noise[2]));
  EXPECT_GT(MaxDifference(noise[0], noise[3]), 0.1) << "another position";
  EXPECT_GT(MaxDifference(noise[1], noise[3]), 0.1) << "another token";
  const at::Tensor other = NoiseOfTokens({.bound = 0.3, .seed = 8}, tokens, positions, 500);
  EXPECT_GT(MaxDifference(noise, other), 0.1);
}

}  // namespace embedding_noise_test
}  // namespace braid
