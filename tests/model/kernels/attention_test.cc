#include <ATen/ATen.h>

#include <cmath>
#include <complex>
#include <limits>
#include <vector>

#include "gtest/gtest.h"
#include "model/kernels/branch_attention.h"
#include "model/kernels/causal_attention.h"
#include "tests/model/reference_transformer.h"
#include "tests/model/tensor_testing.h"

namespace braid {
namespace attention_test {

constexpr double kTheta = 10000;

class CausalAttentionTest : public testing::TestWithParam<int64_t> {};

TEST_P(CausalAttentionTest, EqualsPlainAttentionForwardAndBackward) {
  at::manual_seed(5);
  const int64_t length = GetParam(), heads = 3, width = 4;
  const at::Tensor qkv = RandomLeaf({2, length, 3 * heads * width});
  const at::Tensor upstream = at::randn({2, length, heads * width}, at::kDouble);
  const AttentionTables tables =
      MakeAttentionTables(length + 5, heads, width, kTheta, at::TensorOptions(at::kDouble));
  const auto got =
      GradientsOf([&] { return (CausalAttention(qkv, tables) * upstream).sum(); }, {qkv});
  const auto expected =
      GradientsOf([&] { return (ReferenceAttention(qkv, heads, kTheta) * upstream).sum(); }, {qkv});
  EXPECT_LT(MaxDifference(CausalAttention(qkv, tables), ReferenceAttention(qkv, heads, kTheta)),
            1e-10);
  EXPECT_LT(MaxDifference(got[0], expected[0]), 1e-10);
}

// Lengths below one block, exactly one, slightly more, and several; the last saves no
// probabilities.
INSTANTIATE_TEST_SUITE_P(Lengths, CausalAttentionTest, testing::Values(1, 7, 128, 129, 300, 1250));

// Compares the single-precision kernel with the plain path in double precision.
TEST_P(CausalAttentionTest, SinglePrecisionEqualsDouble) {
  at::manual_seed(9);
  const int64_t length = GetParam(), heads = 3, width = 24;
  const at::Tensor qkv = RandomLeaf({2, length, 3 * heads * width});
  const at::Tensor single = qkv.detach().to(at::kFloat).requires_grad_();
  const at::Tensor upstream = at::randn({2, length, heads * width}, at::kDouble);
  const auto attend = [&](const at::Tensor& x) {
    return CausalAttention(x, MakeAttentionTables(length + 5, heads, width, kTheta, x.options()));
  };
  EXPECT_LT(MaxDifference(attend(single).to(at::kDouble), attend(qkv)), 1e-5);
  const auto got = GradientsOf([&] { return (attend(single) * upstream).sum(); }, {single});
  const auto expected = GradientsOf([&] { return (attend(qkv) * upstream).sum(); }, {qkv});
  EXPECT_LT(MaxDifference(got[0].to(at::kDouble), expected[0]), 5e-5);
}

TEST(CausalAttentionGradientTest, EqualsFiniteDifferences) {
  at::manual_seed(6);
  const at::Tensor qkv = RandomLeaf({1, 6, 3 * 8});
  const at::Tensor upstream = at::randn({1, 6, 8}, at::kDouble);
  const AttentionTables tables =
      MakeAttentionTables(6, 2, 4, kTheta, at::TensorOptions(at::kDouble));
  EXPECT_LT(FiniteDifferenceError([&] { return (CausalAttention(qkv, tables) * upstream).sum(); },
                                  {qkv}, 60),
            1e-7);
}

TEST(CausalAttendTest, LastQueriesSeeAllEarlierKeys) {
  at::manual_seed(7);
  const at::Tensor q = at::randn({2, 9, 4}, at::kDouble), k = at::randn({2, 9, 4}, at::kDouble);
  const at::Tensor v = at::randn({2, 9, 4}, at::kDouble);
  const at::Tensor all = CausalAttend(q, k, v);
  EXPECT_LT(MaxDifference(CausalAttend(q.narrow(1, 6, 3), k, v), all.narrow(1, 6, 3)), 1e-12);
}

TEST(RotaryEmbeddingTest, ScoresDependOnDistanceOnly) {
  at::manual_seed(8);
  const at::Tensor token = at::randn({1, 1, 3 * 8}, at::kDouble);
  const AttentionTables tables =
      MakeAttentionTables(64, 1, 8, kTheta, at::TensorOptions(at::kDouble));
  const auto score = [&](int64_t query, int64_t key) {
    return (RotateHeads(token, tables, query).q * RotateHeads(token, tables, key).k)
        .sum()
        .item<double>();
  };
  EXPECT_NEAR(score(10, 3), score(57, 50), 1e-12);
  EXPECT_GT(std::abs(score(10, 3) - score(10, 4)), 1e-6);
}

// The Hugging Face pairing: element j rotates with element j + hd/2.
TEST(RotaryEmbeddingTest, RotatesPairsAsComplexNumbers) {
  const std::vector<double> head = {0.3, -1.2, 0.8, 2.0};
  at::Tensor qkv = at::zeros({1, 1, 12}, at::kDouble);
  qkv[0][0].narrow(0, 4, 4).copy_(at::tensor(head, at::kDouble));
  const AttentionTables tables =
      MakeAttentionTables(16, 1, 4, kTheta, at::TensorOptions(at::kDouble));
  const at::Tensor k = RotateHeads(qkv, tables, 5).k.flatten();
  for (int j = 0; j < 2; ++j) {
    const std::complex<double> turned = std::complex<double>(head[j], head[j + 2]) *
                                        std::polar(1.0, 5 * std::pow(kTheta, -2.0 * j / 4));
    EXPECT_NEAR(k[j].item<double>(), turned.real(), 1e-12);
    EXPECT_NEAR(k[j + 2].item<double>(), turned.imag(), 1e-12);
  }
}

// Compares branches of one sequence with separate sequences.
TEST_P(CausalAttentionTest, BranchesEqualWholeSequences) {
  at::manual_seed(11);
  const int64_t length = GetParam(), branches = 3, heads = 2, width = 4;
  for (int64_t shared : {1, 5, 200}) {
    const auto random = [&](at::IntArrayRef shape) { return at::randn(shape, at::kDouble); };
    const at::Tensor keys = random({heads, shared, width}), values = random({heads, shared, width});
    const std::vector<int64_t> shape = {branches, heads, length, width};
    const RotatedHeads own = {random(shape), random(shape), random(shape)};
    const at::Tensor got = BranchAttend(own, keys, values);
    for (int64_t i = 0; i < branches; ++i) {
      const at::Tensor expected =
          CausalAttend(own.q[i], at::cat({keys, own.k[i]}, 1), at::cat({values, own.v[i]}, 1));
      EXPECT_LT(MaxDifference(got[i], expected.transpose(0, 1).reshape({length, -1})), 1e-10);
    }
  }
}

}  // namespace attention_test
}  // namespace braid
