#include "model/kernels/orthogonalize.h"

#include <ATen/ATen.h>

#include <span>

#include "gtest/gtest.h"
#include "tests/model/tensor_testing.h"

namespace braid {
namespace orthogonalize_test {

std::span<float> SpanOf(const at::Tensor& t) {
  return {t.data_ptr<float>(), static_cast<size_t>(t.numel())};
}

at::Tensor SingularValues(const at::Tensor& matrix) {
  return std::get<1>(at::linalg_svd(matrix.to(at::kDouble), /*full_matrices=*/false));
}

// The iteration in double precision, written with the singular values: x <- a x + b x^3 + c x^5.
at::Tensor DoubleOracle(const at::Tensor& matrix) {
  const auto [u, s, v] = at::linalg_svd(matrix.to(at::kDouble), /*full_matrices=*/false);
  at::Tensor x = s / s.norm();
  for (int i = 0; i < 5; ++i) x = 3.4445 * x - 4.7750 * x.pow(3) + 2.0315 * x.pow(5);
  return at::mm(u * x, v);
}

TEST(OrthogonalizeTest, EqualsTheIterationOfSingularValuesInDouble) {
  at::manual_seed(3);
  for (const auto& [rows, columns] : {std::pair{24, 24}, {16, 56}, {56, 16}, {1, 9}, {9, 1}}) {
    const at::Tensor all = at::randn({3, rows, columns}) * 1e-3, got = all.clone();
    Orthogonalize(SpanOf(got), rows, columns);
    for (int i = 0; i < 3; ++i) {
      EXPECT_LT(MaxDifference(got[i].to(at::kDouble), DoubleOracle(all[i])), 2e-5) << rows;
    }
  }
}

TEST(OrthogonalizeTest, SingularValuesAreNearOne) {
  at::manual_seed(4);
  for (const auto& [rows, columns] : {std::pair{48, 96}, {96, 48}, {64, 65}}) {
    at::Tensor matrix = at::randn({rows, columns});
    const at::Tensor before = SingularValues(matrix);
    Orthogonalize(SpanOf(matrix), rows, columns);
    const at::Tensor after = SingularValues(matrix);
    if (rows != 64) {
      EXPECT_GT(after.min().item<double>(), 0.67) << before;
    }
    EXPECT_LT(after.max().item<double>(), 1.2) << rows;
  }
}

TEST(OrthogonalizeTest, TinyGradientsAndZeros) {
  at::manual_seed(5);
  const at::Tensor matrix = at::randn({12, 20});
  at::Tensor one = matrix.clone(), tiny = matrix * 1e-30, zero = at::zeros({12, 20});
  for (at::Tensor* m : {&one, &tiny, &zero}) Orthogonalize(SpanOf(*m), 12, 20);
  EXPECT_LT(MaxDifference(one, tiny), 1e-4);
  EXPECT_EQ(zero.abs().max().item<float>(), 0);
}

}  // namespace orthogonalize_test
}  // namespace braid
