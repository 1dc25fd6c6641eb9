// Linear layers in panels against plain matrix products in double precision.
#include "model/kernels/linear.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <vector>

#include "gtest/gtest.h"
#include "tests/model/tensor_testing.h"

namespace braid {
namespace linear_test {

at::Tensor Single(const at::Tensor& t) { return t.detach().to(at::kFloat).requires_grad_(); }

// The first shape has fewer tokens than a panel; the last two fill neither panels nor blocks, and
// one has more tokens than the gradient lays out at a time.
struct Shape {
  int64_t tokens, in, out;
};
const Shape kShapes[] = {{3, 8, 8}, {64, 64, 64}, {130, 37, 150}, {4200, 5, 9}};

TEST(LinearTest, EqualsPlainProductsForwardAndBackward) {
  at::manual_seed(5);
  for (const Shape& shape : kShapes) {
    const at::Tensor x = RandomLeaf({shape.tokens, shape.in});
    const at::Tensor weight = RandomLeaf({shape.out, shape.in});
    const at::Tensor bias = RandomLeaf({shape.out});
    const at::Tensor residual = RandomLeaf({shape.tokens, shape.out});
    const at::Tensor upstream = at::randn({shape.tokens, shape.out}, at::kDouble);
    for (const at::Tensor& added : {at::Tensor(), bias, residual}) {
      std::vector<at::Tensor> leaves = {x, weight};
      if (added.defined()) leaves.push_back(added);
      std::vector<at::Tensor> single;
      for (const at::Tensor& leaf : leaves) single.push_back(Single(leaf));
      const auto plain = [&] {
        const at::Tensor y = at::mm(x, weight.t());
        return added.defined() ? y + added : y;
      };
      const auto linear = [&] {
        return Linear(single[0], single[1], added.defined() ? single[2] : at::Tensor());
      };
      EXPECT_LT(MaxDifference(linear().to(at::kDouble), plain()), 1e-4);
      const auto got = GradientsOf([&] { return (linear() * upstream).sum(); }, single);
      const auto expected = GradientsOf([&] { return (plain() * upstream).sum(); }, leaves);
      for (size_t i = 0; i < leaves.size(); ++i) {
        EXPECT_LT(MaxDifference(got[i].to(at::kDouble), expected[i]),
                  1e-5 * (1 + expected[i].abs().max().item<double>()))
            << shape.tokens << " " << i;
      }
      EXPECT_LT(
          MaxDifference(
              LinearInputGradient(upstream.to(at::kFloat), single[1].detach()).to(at::kDouble),
              at::mm(upstream, weight)),
          1e-4);
    }
  }
}

TEST(LinearTest, AddsToTheGradientOfALeafInPlace) {
  at::manual_seed(6);
  const at::Tensor x = Single(RandomLeaf({100, 20})), weight = Single(RandomLeaf({30, 20}));
  weight.mutable_grad() = at::ones_like(weight);
  const float* const place = weight.grad().data_ptr<float>();
  Linear(x, weight, {}).sum().backward();
  EXPECT_EQ(weight.grad().data_ptr<float>(), place);
  const at::Tensor expected = x.detach().sum(0).expand({30, 20}) + 1;
  EXPECT_LT(MaxDifference(weight.grad(), expected), 1e-4);
}

TEST(LinearTest, AFrozenMatrixHasNoGradient) {
  const at::Tensor x = Single(RandomLeaf({100, 20}));
  const at::Tensor weight = at::randn({30, 20});
  Linear(x, weight, {}).sum().backward();
  EXPECT_FALSE(weight.grad().defined());
  EXPECT_LT(MaxDifference(x.grad(), weight.sum(0).expand({100, 20})), 1e-4);
}

// The bits of a token's output depend on no other token, and those of gradients on no thread.
TEST(LinearTest, BitsDependNeitherOnOtherTokensNorOnThreads) {
  at::manual_seed(7);
  const at::Tensor x = Single(RandomLeaf({700, 64})), weight = Single(RandomLeaf({100, 64}));
  const at::Tensor all = Linear(x, weight, {}).detach();
  const at::Tensor part = Linear(x.detach().narrow(0, 0, 77), weight, {}).detach();
  EXPECT_TRUE(at::equal(part, all.narrow(0, 0, 77)));
  const int threads = at::get_num_threads();
  std::vector<at::Tensor> gradients;
  for (const int num_threads : {1, 2, 3}) {
    at::set_num_threads(num_threads);
    const auto both = GradientsOf([&] { return Linear(x, weight, {}).pow(2).sum(); }, {x, weight});
    gradients.push_back(at::cat({both[0].flatten(), both[1].flatten()}));
    EXPECT_TRUE(at::equal(gradients.back(), gradients.front())) << num_threads;
  }
  at::set_num_threads(threads);
}

}  // namespace linear_test
}  // namespace braid
