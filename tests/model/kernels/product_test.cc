// Products of few tokens against plain matrix products in double precision.
#include "model/kernels/product.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <cmath>

#include "gtest/gtest.h"
#include "tests/model/tensor_testing.h"

namespace braid {
namespace product_test {

// Sizes that fill neither vectors nor groups of rows; the last matrices are shared by several
// tasks.
struct Shape {
  int64_t in, out;
};
const Shape kShapes[] = {{1, 1}, {5, 3}, {16, 4}, {37, 150}, {384, 700}, {1031, 517}};

void ExpectClose(const at::Tensor& got, const at::Tensor& expected, double scale) {
  ASSERT_EQ(got.sizes(), expected.sizes());
  EXPECT_LT((got.to(at::kDouble) - expected).abs().max().item<double>(), 1e-6 * scale);
}

TEST(ProductTest, EqualsPlainProductsForAnyLayout) {
  at::manual_seed(3);
  for (const auto& [in, out] : kShapes) {
    for (const int64_t tokens : {1, 2, 3, 5, 8, 9}) {
      SCOPED_TRACE(testing::Message() << tokens << " tokens, " << in << " to " << out);
      const at::Tensor x = at::randn({tokens, in}), matrix = at::randn({in, out});
      const at::Tensor added = at::randn({tokens, out}), bias = at::randn({out});
      const at::Tensor expected = at::mm(x.to(at::kDouble), matrix.to(at::kDouble));
      const double scale = std::sqrt(static_cast<double>(in)) * 4;
      const at::Tensor wide = at::randn({in, out + 3});
      wide.narrow(1, 0, out).copy_(matrix);
      for (const at::Tensor& m : {matrix, matrix.t().contiguous().t(), wide.narrow(1, 0, out)}) {
        ExpectClose(Product(x, m), expected, scale);
        ExpectClose(AddProduct(added, x, m), expected + added, scale);
        ExpectClose(AddProduct(bias, x, m), expected + bias, scale);
      }
      // A column of another matrix, and other types.
      const at::Tensor strided = at::randn({tokens, 2 * in});
      strided.narrow(1, in, in).copy_(x);
      ExpectClose(Product(strided.narrow(1, in, in), matrix), expected, scale);
      EXPECT_EQ(Product(x.to(at::kDouble), matrix.to(at::kDouble)).scalar_type(), at::kDouble);
    }
  }
  EXPECT_EQ(Product(at::empty({0, 4}), at::randn({4, 2})).size(0), 0);
}

TEST(ProductTest, BitsDoNotDependOnThreads) {
  at::manual_seed(4);
  const int threads = at::get_num_threads();
  for (const int64_t tokens : {1, 8}) {
    const at::Tensor x = at::randn({tokens, 1031});
    for (const at::Tensor& matrix : {at::randn({1031, 517}), at::randn({517, 1031}).t()}) {
      at::set_num_threads(1);
      const at::Tensor alone = Product(x, matrix);
      for (const int num_threads : {2, 3}) {
        at::set_num_threads(num_threads);
        EXPECT_TRUE(at::equal(Product(x, matrix), alone)) << tokens << " " << num_threads;
      }
    }
  }
  at::set_num_threads(threads);
}

TEST(ProductTest, IsDifferentiable) {
  const at::Tensor x = RandomLeaf({2, 6}).detach().to(at::kFloat).requires_grad_();
  const at::Tensor matrix = RandomLeaf({6, 3}).detach().to(at::kFloat).requires_grad_();
  const auto gradients =
      GradientsOf([&] { return AddProduct(at::ones({3}), x, matrix).pow(2).sum(); }, {x, matrix});
  const auto expected =
      GradientsOf([&] { return at::addmm(at::ones({3}), x, matrix).pow(2).sum(); }, {x, matrix});
  EXPECT_TRUE(at::allclose(gradients[0], expected[0]));
  EXPECT_TRUE(at::allclose(gradients[1], expected[1]));
}

}  // namespace product_test
}  // namespace braid
