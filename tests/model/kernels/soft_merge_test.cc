#include "model/kernels/soft_merge.h"

#include <ATen/ATen.h>

#include <vector>

#include "gtest/gtest.h"
#include "tests/model/kernels/soft_merge_reference.h"
#include "tests/model/tensor_testing.h"

namespace braid {
namespace soft_merge_test {

struct SoftMergeCase {
  int64_t n, s, d, f, e, scratch_bytes;
};

// Returns the difference relative to the largest value.
double RelativeDifference(const at::Tensor& got, const at::Tensor& expected) {
  return MaxDifference(got, expected) / expected.abs().max().item<double>();
}

class SoftMergeTest : public testing::TestWithParam<SoftMergeCase> {
 protected:
  SoftMergeTest() {
    at::manual_seed(3);
    const SoftMergeCase& c = GetParam();
    logits_ = RandomLeaf({c.n, c.e});
    leaves_ = {RandomLeaf({c.n, c.s, c.d}), at::softmax(logits_, 1).detach().requires_grad_(),
               RandomLeaf({2, c.e, c.f, c.d}), RandomLeaf({c.e, c.f, c.d})};
    upstream_ = at::randn({c.n, c.s, c.d}, at::kDouble);
  }

  at::Tensor Layer() const {
    return SoftMergeFfn(leaves_[0], leaves_[1], {leaves_[2], leaves_[3]}, GetParam().scratch_bytes);
  }
  at::Tensor Reference() const {
    return SoftMergeReference(leaves_[0], leaves_[1], leaves_[2], leaves_[3]);
  }

  at::Tensor logits_, upstream_;
  std::vector<at::Tensor> leaves_;
};

TEST_P(SoftMergeTest, EqualsLoopOverExperts) {
  EXPECT_LT(MaxDifference(Layer(), Reference()), 1e-9);
  const auto got = GradientsOf([&] { return (Layer() * upstream_).sum(); }, leaves_);
  const auto expected = GradientsOf([&] { return (Reference() * upstream_).sum(); }, leaves_);
  for (size_t i = 0; i < leaves_.size(); ++i) {
    EXPECT_LT(MaxDifference(got[i], expected[i]), 1e-9) << "gradient " << i;
    EXPECT_GT(expected[i].abs().max().item<double>(), 1e-3) << "gradient " << i;
  }
}

TEST_P(SoftMergeTest, GradientsEqualFiniteDifferences) {
  EXPECT_LT(FiniteDifferenceError([&] { return (Layer() * upstream_).mean(); }, leaves_, 20), 1e-7);
}

// Compares the fused kernel with the definition in double precision.
TEST_P(SoftMergeTest, SinglePrecisionEqualsLoopOverExperts) {
  std::vector<at::Tensor> single;
  for (const at::Tensor& leaf : leaves_) {
    single.push_back(leaf.detach().to(at::kFloat).requires_grad_());
  }
  const auto layer = [&] {
    return SoftMergeFfn(single[0], single[1], {single[2], single[3]}).to(at::kDouble);
  };
  EXPECT_LT(RelativeDifference(layer(), Reference()), 2e-5);
  const auto got = GradientsOf([&] { return (layer() * upstream_).sum(); }, single);
  const auto expected = GradientsOf([&] { return (Reference() * upstream_).sum(); }, leaves_);
  for (size_t i = 0; i < leaves_.size(); ++i) {
    EXPECT_LT(RelativeDifference(got[i].to(at::kDouble), expected[i]), 2e-5) << "gradient " << i;
  }
}

// 1 byte of scratch means one segment per group. The last two cases end with a short group.
INSTANTIATE_TEST_SUITE_P(Shapes, SoftMergeTest,
                         testing::Values(SoftMergeCase{1, 1, 2, 3, 2, 1},
                                         SoftMergeCase{5, 4, 6, 10, 3, 1},
                                         SoftMergeCase{5, 4, 6, 10, 3, 2 * 2 * 60 * 8},
                                         SoftMergeCase{20, 5, 12, 20, 8, kSoftMergeScratchBytes},
                                         // Partial panels, tiles and feature blocks.
                                         SoftMergeCase{3, 70, 72, 100, 3, kSoftMergeScratchBytes}));

TEST(SoftMergeFfnTest, OneHotRoutingIsThatExpert) {
  at::manual_seed(4);
  const at::Tensor x = at::randn({1, 4, 6}, at::kDouble);
  const SoftExperts experts{at::randn({2, 3, 10, 6}, at::kDouble),
                            at::randn({3, 10, 6}, at::kDouble)};
  const at::Tensor one_hot = at::tensor({0.0, 1.0, 0.0}, at::kDouble).view({1, 3});
  const SoftExperts only{experts.gate_up.narrow(1, 1, 1), experts.down.narrow(0, 1, 1)};
  const at::Tensor one = at::ones({1, 1}, at::kDouble);
  EXPECT_LT(MaxDifference(SoftMergeFfn(x, one_hot, experts), SoftMergeFfn(x, one, only)), 1e-12);
}

}  // namespace soft_merge_test
}  // namespace braid
