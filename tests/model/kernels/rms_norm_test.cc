#include "model/kernels/rms_norm.h"

#include <ATen/ATen.h>

#include <vector>

#include "gtest/gtest.h"
#include "model/kernels/swiglu.h"
#include "tests/model/tensor_testing.h"

namespace braid {
namespace rms_norm_test {

TEST(RmsNormTest, EqualsDefinitionForwardAndBackward) {
  at::manual_seed(11);
  const at::Tensor x = RandomLeaf({9, 6}), weight = RandomLeaf({6});
  const at::Tensor upstream = at::randn({9, 6}, at::kDouble);
  const auto plain = [&] { return weight * x / at::sqrt(x.pow(2).mean(1, true) + 1e-3); };
  EXPECT_LT(MaxDifference(RmsNorm(x, weight, 1e-3), plain()), 1e-12);
  const auto got =
      GradientsOf([&] { return (RmsNorm(x, weight, 1e-3) * upstream).sum(); }, {x, weight});
  const auto expected = GradientsOf([&] { return (plain() * upstream).sum(); }, {x, weight});
  EXPECT_LT(MaxDifference(got[0], expected[0]), 1e-11);
  EXPECT_LT(MaxDifference(got[1], expected[1]), 1e-11);
}

// Tests the single-precision kernel with more rows than one partial sum of its weight gradient.
TEST(RmsNormTest, SinglePrecisionEqualsDouble) {
  at::manual_seed(13);
  const at::Tensor x = RandomLeaf({600, 37}), weight = RandomLeaf({37});
  const at::Tensor upstream = at::randn({600, 37}, at::kDouble);
  const auto single = [](const at::Tensor& t) {
    return t.detach().to(at::kFloat).requires_grad_();
  };
  const at::Tensor x32 = single(x), weight32 = single(weight);
  EXPECT_LT(MaxDifference(RmsNorm(x32, weight32, 1e-3).to(at::kDouble), RmsNorm(x, weight, 1e-3)),
            1e-5);
  const auto got =
      GradientsOf([&] { return (RmsNorm(x32, weight32, 1e-3) * upstream).sum(); }, {x32, weight32});
  const auto expected =
      GradientsOf([&] { return (RmsNorm(x, weight, 1e-3) * upstream).sum(); }, {x, weight});
  EXPECT_LT(MaxDifference(got[0].to(at::kDouble), expected[0]), 1e-5);
  EXPECT_LT(MaxDifference(got[1].to(at::kDouble), expected[1]), 1e-4);
}

TEST(SwiGluTest, EqualsDefinitionForwardAndBackward) {
  at::manual_seed(12);
  const at::Tensor x = RandomLeaf({3, 5, 8});
  const at::Tensor upstream = at::randn({3, 5, 4}, at::kDouble);
  const auto plain = [&] {
    const at::Tensor gate = x.narrow(-1, 0, 4);
    return gate * at::sigmoid(gate) * x.narrow(-1, 4, 4);
  };
  EXPECT_LT(MaxDifference(SwiGlu(x), plain()), 1e-12);
  const auto got = GradientsOf([&] { return (SwiGlu(x) * upstream).sum(); }, {x});
  const auto expected = GradientsOf([&] { return (plain() * upstream).sum(); }, {x});
  EXPECT_LT(MaxDifference(got[0], expected[0]), 1e-12);
}

}  // namespace rms_norm_test
}  // namespace braid
