// Linear layers with adapters against the dense matrix W + scale B A, in double precision.
#include "model/kernels/adapted_linear.h"

#include <ATen/ATen.h>

#include <cmath>
#include <vector>

#include "gtest/gtest.h"
#include "model/kernels/dense_ffn.h"
#include "tests/model/tensor_testing.h"

namespace braid {
namespace adapted_linear_test {

constexpr int64_t kTokens = 12, kIn = 7, kOut = 10, kRank = 3;

Adapter RandomAdapter(int64_t first_row, int64_t rows, int64_t in) {
  return {first_row, RandomLeaf({kRank, in}), RandomLeaf({rows, kRank})};
}

// Returns W with the adapters added, [out, in].
at::Tensor Dense(const at::Tensor& weight, const Adapters& adapters) {
  std::vector<at::Tensor> rows = {};
  at::Tensor dense = weight;
  for (const Adapter& part : adapters.parts) {
    const int64_t after = weight.size(0) - part.first_row - part.b.size(0);
    dense = dense + at::constant_pad_nd(at::mm(part.b, part.a), {0, 0, part.first_row, after}) *
                        adapters.scale;
  }
  return dense;
}

// With the many tokens the adapters are added to the matrix.
TEST(AdaptedLinearTest, EqualsTheDenseMatrixForwardAndBackward) {
  at::manual_seed(3);
  const at::Tensor bias = RandomLeaf({kOut});
  const at::Tensor weight = at::randn({kOut, kIn}, at::kDouble);
  const Adapters adapters{{RandomAdapter(0, 4, kIn), RandomAdapter(7, 3, kIn)}, 0.7};
  for (const int64_t tokens : {kTokens, kIn + kOut}) {
    const at::Tensor x = RandomLeaf({tokens, kIn}), residual = RandomLeaf({tokens, kOut});
    for (const at::Tensor& added : {bias, residual}) {
      std::vector<at::Tensor> leaves = {x, added};
      for (const Adapter& part : adapters.parts) leaves.insert(leaves.end(), {part.a, part.b});
      const auto got = GradientsOf(
          [&] { return AdaptedLinear(x, weight, added, adapters, {}).pow(3).sum(); }, leaves);
      const auto expected = GradientsOf(
          [&] { return (at::mm(x, Dense(weight, adapters).t()) + added).pow(3).sum(); }, leaves);
      for (size_t i = 0; i < leaves.size(); ++i) {
        EXPECT_LT(MaxDifference(got[i], expected[i]),
                  1e-8 * (1 + expected[i].abs().max().item<double>()))
            << tokens << " " << i;
      }
    }
  }
}

// A matrix in panels, with adapters added to it, in single precision.
TEST(AdaptedLinearTest, SinglePrecisionEqualsTheDenseMatrix) {
  at::manual_seed(8);
  const auto single = [](const at::Tensor& t) {
    return t.detach().to(at::kFloat).requires_grad_(t.requires_grad());
  };
  const at::Tensor x = RandomLeaf({150, kIn}), weight = at::randn({kOut, kIn}, at::kDouble);
  const Adapters adapters{{RandomAdapter(2, 5, kIn)}, 0.7};
  const Adapter& part = adapters.parts[0];
  const Adapters adapters32{{{2, single(part.a), single(part.b)}}, 0.7};
  const at::Tensor x32 = single(x), weight32 = single(weight);
  const auto got =
      GradientsOf([&] { return AdaptedLinear(x32, weight32, {}, adapters32, {}).pow(2).sum(); },
                  {x32, adapters32.parts[0].a, adapters32.parts[0].b});
  const auto expected = GradientsOf(
      [&] { return at::mm(x, Dense(weight, adapters).t()).pow(2).sum(); }, {x, part.a, part.b});
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_LT(MaxDifference(got[i].to(at::kDouble), expected[i]),
              1e-5 * (1 + expected[i].abs().max().item<double>()))
        << i;
  }
}

TEST(AdaptedLinearTest, FfnEqualsTheDenseFfn) {
  at::manual_seed(4);
  const at::Tensor x = RandomLeaf({kTokens, kIn});
  const at::Tensor gate_up = at::randn({2 * kOut, kIn}, at::kDouble);
  const at::Tensor down = at::randn({kOut, kIn}, at::kDouble);
  const Adapters up{{RandomAdapter(kOut, kOut, kIn)}, 0.5}, out{{RandomAdapter(0, kIn, kOut)}, 2};
  const std::vector<at::Tensor> leaves = {x, up.parts[0].a, up.parts[0].b, out.parts[0].a,
                                          out.parts[0].b};
  const auto got = GradientsOf(
      [&] { return AdaptedFfn(x, gate_up, down, up, out, {}, {}).pow(2).sum(); }, leaves);
  const auto expected = GradientsOf(
      [&] { return DenseFfn(x, Dense(gate_up, up), Dense(down.t(), out).t()).pow(2).sum(); },
      leaves);
  for (size_t i = 0; i < leaves.size(); ++i) {
    EXPECT_LT(MaxDifference(got[i], expected[i]),
              1e-9 * (1 + expected[i].abs().max().item<double>()))
        << i;
  }
}

TEST(AdaptedLinearTest, ExpertsEqualTheDenseMatricesForwardAndBackward) {
  at::manual_seed(6);
  const int64_t experts = 3;
  const at::Tensor weights = at::randn({2, experts, kOut, kIn}, at::kDouble);
  const auto adapter = [&](int64_t first_row) {
    return Adapter{first_row, RandomLeaf({experts, kRank, kIn}),
                   RandomLeaf({experts, kOut, kRank})};
  };
  for (const Adapters& adapters :
       {Adapters{{adapter(0), adapter(kOut)}, 0.7}, Adapters{{adapter(kOut)}, 2}}) {
    std::vector<at::Tensor> leaves;
    for (const Adapter& part : adapters.parts) leaves.insert(leaves.end(), {part.a, part.b});
    const auto dense = [&] {
      std::vector<at::Tensor> matrices;
      for (int64_t kind = 0; kind < 2; ++kind) {
        for (int64_t e = 0; e < experts; ++e) {
          at::Tensor matrix = weights[kind][e];
          for (const Adapter& part : adapters.parts) {
            if (part.first_row != kind * kOut) continue;
            matrix = matrix + adapters.scale * at::mm(part.b[e], part.a[e]);
          }
          matrices.push_back(matrix);
        }
      }
      return at::stack(matrices).view(weights.sizes());
    };
    EXPECT_LT(MaxDifference(AdaptedExperts(weights, adapters), dense()), 1e-12);
    const auto got =
        GradientsOf([&] { return AdaptedExperts(weights, adapters).pow(3).sum(); }, leaves);
    const auto expected = GradientsOf([&] { return dense().pow(3).sum(); }, leaves);
    for (size_t i = 0; i < leaves.size(); ++i) {
      EXPECT_LT(MaxDifference(got[i], expected[i]),
                1e-9 * (1 + expected[i].abs().max().item<double>()))
          << i;
    }
  }
}

TEST(AdaptedLinearTest, DropoutHasItsRateItsGradientAndItsKeys) {
  at::manual_seed(5);
  const int64_t tokens = 400, in = 50;
  const at::Tensor ones = at::ones({tokens, in}, at::kDouble);
  const at::Tensor none = at::zeros({in, in}, at::kDouble);
  const Adapters identity{{{0, at::eye(in, at::kDouble), at::eye(in, at::kDouble)}}, 1};
  const double rate = 0.3;
  const auto mask = [&](const at::Tensor& x, std::vector<uint64_t> keys) {
    return AdaptedLinear(x, none, {}, identity, {rate, std::move(keys)});
  };
  const at::Tensor m = mask(ones, {11, 12});
  const double kept = m.gt(0).to(at::kDouble).mean().item<double>();
  EXPECT_NEAR(kept, 1 - rate, 5 * std::sqrt(rate * (1 - rate) / static_cast<double>(m.numel())));
  EXPECT_NEAR(m.max().item<double>(), 1 / (1 - rate), 1e-6);
  // Sequences may be divided into batches in any way, and other keys give another mask.
  const at::Tensor half = ones.narrow(0, 0, tokens / 2);
  EXPECT_EQ(MaxDifference(mask(half, {11}), m.narrow(0, 0, tokens / 2)), 0);
  EXPECT_EQ(MaxDifference(mask(half, {12}), m.narrow(0, tokens / 2, tokens / 2)), 0);
  EXPECT_GT(MaxDifference(mask(half, {13}), m.narrow(0, 0, tokens / 2)), 0);
  const at::Tensor x = RandomLeaf({6, kIn}), weight = at::randn({kOut, kIn}, at::kDouble);
  const Adapters adapters{{RandomAdapter(2, 5, kIn)}, 1.5};
  EXPECT_LT(FiniteDifferenceError(
                [&] {
                  return AdaptedLinear(x, weight, {}, adapters, {rate, {7, 8, 9}}).pow(2).sum();
                },
                {x, adapters.parts[0].a, adapters.parts[0].b}, 10),
            1e-4);
}

}  // namespace adapted_linear_test
}  // namespace braid
