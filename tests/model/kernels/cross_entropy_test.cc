#include "model/kernels/cross_entropy.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <limits>
#include <vector>

#include "gtest/gtest.h"
#include "tests/model/tensor_testing.h"

namespace braid {
namespace cross_entropy_test {

at::Tensor PlainTotal(const at::Tensor& hidden, const at::Tensor& head, const at::Tensor& targets) {
  const at::Tensor logits = at::mm(hidden, head.t());
  const at::Tensor chosen =
      logits.gather(1, targets.clamp_min(0).unsqueeze(1)).squeeze(1) - logits.logsumexp(1);
  return -(chosen * targets.ge(0)).sum();
}

// More rows than one chunk of 512 Ki logits, with ignored targets.
TEST(CrossEntropyTest, EqualsPlainCrossEntropyForwardAndBackward) {
  at::manual_seed(9);
  for (int64_t rows : {1, 255, 1200}) {
    const at::Tensor hidden = RandomLeaf({rows, 5}), head = RandomLeaf({3000, 5});
    at::Tensor targets = at::randint(0, 3000, {rows}, at::kLong);
    if (rows > 1) targets.narrow(0, rows / 3, rows / 4).fill_(-1);
    const auto got = GradientsOf([&] { return CrossEntropy(hidden, head, targets, 0.25).total; },
                                 {hidden, head});
    const auto expected =
        GradientsOf([&] { return PlainTotal(hidden, head, targets) * 0.25; }, {hidden, head});
    EXPECT_LT(MaxDifference(got[0], expected[0]), 1e-10);
    EXPECT_LT(MaxDifference(got[1], expected[1]), 1e-10);
    const CrossEntropyResult result = CrossEntropy(hidden, head, targets, 0.25);
    EXPECT_NEAR(result.total.item<double>(),
                0.25 * PlainTotal(hidden, head, targets).item<double>(), 1e-8);
    EXPECT_LT(MaxDifference(result.token_loss, ScoreTokens(hidden, head, targets).loss), 1e-12);
  }
}

// The kernels of single precision: in panels, of which neither tokens nor features fill all, and
// for a wider head.
TEST(CrossEntropyTest, SinglePrecisionEqualsDouble) {
  at::manual_seed(14);
  struct Shape {
    int64_t tokens, width, vocabulary;
  };
  for (const Shape& shape : {Shape{700, 5, 901}, Shape{64, 100, 128}, Shape{70, 129, 300}}) {
    const at::Tensor hidden = RandomLeaf({shape.tokens, shape.width});
    const at::Tensor head = RandomLeaf({shape.vocabulary, shape.width});
    const at::Tensor hidden32 = hidden.detach().to(at::kFloat).requires_grad_();
    const at::Tensor head32 = head.detach().to(at::kFloat).requires_grad_();
    at::Tensor targets = at::randint(0, shape.vocabulary, {shape.tokens}, at::kLong);
    targets.narrow(0, 20, 10).fill_(-1);
    const auto loss = [&](const at::Tensor& h, const at::Tensor& w) {
      return CrossEntropy(h, w, targets, 0.01).total;
    };
    EXPECT_NEAR(loss(hidden32, head32).item<double>(), loss(hidden, head).item<double>(), 1e-4);
    const auto got = GradientsOf([&] { return loss(hidden32, head32); }, {hidden32, head32});
    const auto expected = GradientsOf([&] { return loss(hidden, head); }, {hidden, head});
    for (int i = 0; i < 2; ++i) {
      EXPECT_LT(MaxDifference(got[i].to(at::kDouble), expected[i]), 1e-6) << shape.width << i;
    }
    const at::Tensor frozen = head32.detach();
    EXPECT_TRUE(GradientsOf([&] { return loss(hidden32, frozen); }, {hidden32})[0].equal(got[0]));
    EXPECT_LT(MaxDifference(CrossEntropy(hidden32, head32, targets, 1).token_loss,
                            ScoreTokens(hidden32, head32, targets).loss),
              1e-4);
  }
}

TEST(CrossEntropyTest, BitsOfPanelsDoNotDependOnThreads) {
  at::manual_seed(16);
  const at::Tensor hidden = at::randn({300, 20}, at::kFloat).requires_grad_();
  const at::Tensor head = at::randn({500, 20}, at::kFloat).requires_grad_();
  const at::Tensor targets = at::randint(0, 500, {300}, at::kLong);
  const auto gradients = [&](int threads) {
    at::set_num_threads(threads);
    return GradientsOf([&] { return CrossEntropy(hidden, head, targets, 1).total; },
                       {hidden, head});
  };
  const int threads = at::get_num_threads();
  const auto one = gradients(1);
  for (const int count : {2, 3}) {
    const auto several = gradients(count);
    for (int i = 0; i < 2; ++i) EXPECT_TRUE(several[i].equal(one[i])) << count << i;
  }
  at::set_num_threads(threads);
}

// PyTorch's cross_entropy(label_smoothing=e): (1 - e) nll + e mean over the vocabulary of -ln p.
TEST(CrossEntropyTest, LabelSmoothingEqualsItsFormula) {
  at::manual_seed(15);
  const at::Tensor hidden = RandomLeaf({700, 5}), head = RandomLeaf({901, 5});
  const at::Tensor hidden32 = hidden.detach().to(at::kFloat).requires_grad_();
  const at::Tensor head32 = head.detach().to(at::kFloat).requires_grad_();
  at::Tensor targets = at::randint(0, 901, {700}, at::kLong);
  targets.narrow(0, 100, 30).fill_(-1);
  for (const double smoothing : {.1, .7}) {
    const auto formula = [&] {
      const at::Tensor log_p = at::log_softmax(at::mm(hidden, head.t()), 1);
      const at::Tensor nll = -log_p.gather(1, targets.clamp_min(0).unsqueeze(1)).squeeze(1);
      return (((1 - smoothing) * nll - smoothing * log_p.mean(1)) * targets.ge(0)).sum() * 0.01;
    };
    const auto loss = [&](const at::Tensor& h, const at::Tensor& w) {
      return CrossEntropy(h, w, targets, 0.01, {.label_smoothing = smoothing});
    };
    EXPECT_NEAR(loss(hidden, head).total.item<double>(), formula().item<double>(), 1e-10);
    EXPECT_NEAR(loss(hidden32, head32).total.item<double>(), formula().item<double>(), 1e-4);
    const auto expected = GradientsOf(formula, {hidden, head});
    const auto got = GradientsOf([&] { return loss(hidden, head).total; }, {hidden, head});
    const auto got32 =
        GradientsOf([&] { return loss(hidden32, head32).total; }, {hidden32, head32});
    for (int i = 0; i < 2; ++i) {
      EXPECT_LT(MaxDifference(got[i], expected[i]), 1e-12) << i;
      EXPECT_LT(MaxDifference(got32[i].to(at::kDouble), expected[i]), 1e-6) << i;
    }
    EXPECT_LT(MaxDifference(loss(hidden, head).token_loss, ScoreTokens(hidden, head, targets).loss),
              1e-12);
  }
}

// The definition of both terms, with autograd.
at::Tensor PlainTotal(const at::Tensor& hidden, const at::Tensor& head, const at::Tensor& targets,
                      const HeadLoss& loss) {
  at::Tensor logits = at::mm(hidden, head.t());
  if (loss.soft_cap > 0) logits = loss.soft_cap * at::tanh(logits / loss.soft_cap);
  const at::Tensor log_sum = logits.logsumexp(1);
  const at::Tensor chosen = logits.gather(1, targets.clamp_min(0).unsqueeze(1)).squeeze(1);
  return ((log_sum - chosen + loss.z_loss * log_sum.square()) * targets.ge(0)).sum();
}

TEST(CrossEntropyTest, SoftCapAndZLossEqualTheirDefinitions) {
  at::manual_seed(15);
  const at::Tensor hidden = RandomLeaf({700, 5}), head = RandomLeaf({901, 5});
  const at::Tensor hidden32 = hidden.detach().to(at::kFloat).requires_grad_();
  const at::Tensor head32 = head.detach().to(at::kFloat).requires_grad_();
  at::Tensor targets = at::randint(0, 901, {700}, at::kLong);
  targets.narrow(0, 100, 30).fill_(-1);
  for (const HeadLoss& loss :
       {HeadLoss{.soft_cap = 3}, HeadLoss{.z_loss = 0.02}, HeadLoss{3, 0.02}}) {
    const auto run = [&](const at::Tensor& h, const at::Tensor& w) {
      return CrossEntropy(h, w, targets, 0.01, loss);
    };
    const auto got = GradientsOf([&] { return run(hidden, head).total; }, {hidden, head});
    const auto expected =
        GradientsOf([&] { return PlainTotal(hidden, head, targets, loss) * 0.01; }, {hidden, head});
    const auto single =
        GradientsOf([&] { return run(hidden32, head32).total; }, {hidden32, head32});
    for (int i = 0; i < 2; ++i) {
      EXPECT_LT(MaxDifference(got[i], expected[i]), 1e-12) << i;
      EXPECT_LT(MaxDifference(single[i].to(at::kDouble), expected[i]), 2e-6) << i;
    }
    const double total = PlainTotal(hidden, head, targets, loss).item<double>() * 0.01;
    EXPECT_NEAR(run(hidden, head).total.item<double>(), total, 1e-10);
    EXPECT_NEAR(run(hidden32, head32).total.item<double>(), total, 1e-4);
    const at::Tensor reported = ScoreTokens(hidden, head, targets, loss.soft_cap).loss;
    EXPECT_LT(MaxDifference(run(hidden, head).token_loss, reported), 1e-12);
    EXPECT_LT(FiniteDifferenceError([&] { return run(hidden, head).total; }, {hidden, head}, 5),
              1e-7);
  }
  EXPECT_LE(HeadLogits(hidden * 100, head, 3).abs().max().item<double>(), 3);
}

TEST(CrossEntropyTest, IgnoredTokensHaveNoLossAndNoGradient) {
  at::manual_seed(10);
  const at::Tensor hidden = RandomLeaf({4, 3}), head = RandomLeaf({7, 3});
  const at::Tensor targets = at::tensor({2, -1, 6, -1}, at::kLong);
  const auto gradients =
      GradientsOf([&] { return CrossEntropy(hidden, head, targets, 1).total; }, {hidden});
  EXPECT_EQ(gradients[0][1].abs().max().item<double>(), 0);
  EXPECT_GT(gradients[0][2].abs().max().item<double>(), 0);
  EXPECT_EQ(ScoreTokens(hidden, head, targets).loss[3].item<double>(), 0);
}

TEST(CrossEntropyTest, WithoutAnyTargetLossesAndGradientsAreZero) {
  const at::Tensor hidden = RandomLeaf({4, 3}), head = RandomLeaf({7, 3});
  const at::Tensor targets = at::full({4}, -1, at::kLong), numbers = at::zeros({4}, at::kDouble);
  const auto expect_zero = [&](auto loss) {
    EXPECT_EQ(loss().template item<double>(), 0);
    for (const at::Tensor& gradient : GradientsOf(loss, {hidden, head})) {
      EXPECT_EQ(gradient.abs().max().item<double>(), 0);
    }
  };
  expect_zero([&] { return CrossEntropy(hidden, head, targets, 1).total; });
  expect_zero([&] {
    return ConsistencyCrossEntropy(at::cat({hidden, hidden}), head, targets, 1, 2).total;
  });
  expect_zero([&] { return SquaredErrors(hidden, head.narrow(0, 0, 1), targets, numbers).sum(); });
  EXPECT_EQ(ScoreTokens(hidden, head, targets).loss.abs().max().item<double>(), 0);
}

// In both precisions, with a soft cap, and for pairs of passes.
TEST(CrossEntropyTest, IgnoredHiddenStatesThatAreNotNumbersHaveNoInfluence) {
  at::manual_seed(11);
  const at::Tensor targets = at::tensor({2, -1, 6, -1}, at::kLong);
  for (const at::ScalarType type : {at::kFloat, at::kDouble}) {
    const at::Tensor head = at::randn({7, 3}, type).requires_grad_();
    at::Tensor finite = at::randn({4, 3}, type), broken = finite.clone();
    finite[1].fill_(0), finite[3].fill_(0);
    broken[1].fill_(std::numeric_limits<double>::quiet_NaN());
    broken[3].fill_(std::numeric_limits<double>::infinity());
    const auto expect_equal = [&](auto loss) {
      const auto gradients = [&](const at::Tensor& values) {
        const at::Tensor hidden = values.clone().requires_grad_();
        return GradientsOf([&] { return loss(hidden); }, {hidden, head});
      };
      const auto got = gradients(broken), expected = gradients(finite);
      EXPECT_EQ(MaxDifference(got[0], expected[0]), 0);
      EXPECT_EQ(MaxDifference(got[1], expected[1]), 0);
    };
    for (const HeadLoss& asked :
         {HeadLoss{}, HeadLoss{.soft_cap = 3, .z_loss = .1, .label_smoothing = .2}}) {
      expect_equal([&](const at::Tensor& hidden) {
        return CrossEntropy(hidden, head, targets, 1, asked).total;
      });
    }
    expect_equal([&](const at::Tensor& hidden) {
      return ConsistencyCrossEntropy(at::cat({hidden, hidden}), head, targets, 1, 2).total;
    });
  }
}

TEST(CrossEntropyTest, SurvivesExtremeLogits) {
  const at::Tensor hidden = at::tensor({500.0, -500.0}, at::kFloat).view({2, 1});
  const at::Tensor head = at::tensor({1.0, 0.0}, at::kFloat).view({2, 1});
  const at::Tensor losses = ScoreTokens(hidden, head, at::tensor({1, 1}, at::kLong)).loss;
  EXPECT_FLOAT_EQ(losses[0].item<float>(), 500);
  EXPECT_FLOAT_EQ(losses[1].item<float>(), 0);
}

TEST(SquaredErrorsTest, IgnoredPositionsThatAreNotNumbersHaveNoInfluence) {
  at::manual_seed(12);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const at::Tensor targets = at::tensor({0, -1, 0, -1}, at::kLong);
  const at::Tensor numbers = at::tensor({0.5, nan, -2.0, 1.0}, at::kDouble);
  const at::Tensor values = at::randn({4, 3}, at::kDouble), head = RandomLeaf({1, 3});
  values[3].fill_(nan);
  const at::Tensor hidden = values.clone().requires_grad_();
  const at::Tensor kept = at::tensor({0, 2}, at::kLong);
  const at::Tensor alone = values.index_select(0, kept).requires_grad_();
  const auto got = GradientsOf([&] { return SquaredErrors(hidden, head, targets, numbers).sum(); },
                               {hidden, head});
  const auto expected = GradientsOf(
      [&] {
        return (at::mm(alone, head.t()).squeeze(1) - numbers.index_select(0, kept)).square().sum();
      },
      {alone, head});
  EXPECT_LT(MaxDifference(got[0].index_select(0, kept), expected[0]), 1e-12);
  EXPECT_LT(MaxDifference(got[1], expected[1]), 1e-12);
  EXPECT_EQ(got[0][1].abs().max().item<double>(), 0);
  EXPECT_EQ(got[0][3].abs().max().item<double>(), 0);
  EXPECT_EQ(SquaredErrors(hidden, head, targets, numbers)[3].item<double>(), 0);
}

TEST(ConsistencyCrossEntropyTest, EqualsItsDefinitionAndIsSymmetric) {
  at::manual_seed(3);
  const at::Tensor hidden = RandomLeaf({12, 5}), head = RandomLeaf({9, 5});
  const at::Tensor targets = at::tensor({3, -1, 0, 8, 2, 5}, at::kLong);
  const double scale = 0.25, c = 2;
  const auto run = [&](const at::Tensor& h) {
    return ConsistencyCrossEntropy(h, head, targets, scale, c);
  };
  const auto reference = [&] {
    at::Tensor total = at::zeros({}, at::kDouble);
    for (int64_t t = 0; t < 6; ++t) {
      const int64_t target = targets[t].item<int64_t>();
      if (target < 0) continue;
      const at::Tensor p = at::softmax(at::matmul(head, hidden[t]), 0);
      const at::Tensor q = at::softmax(at::matmul(head, hidden[t + 6]), 0);
      const at::Tensor forward = (p * (p / q).log()).sum(), back = (q * (q / p).log()).sum();
      total = total - 0.5 * (p[target].log() + q[target].log()) + c * 0.5 * (forward + back);
    }
    return total * scale;
  };
  const auto loss = [&] { return run(hidden).total; };
  EXPECT_NEAR(loss().item<double>(), reference().item<double>(), 1e-12);
  const auto got = GradientsOf(loss, {hidden, head});
  const auto expected = GradientsOf(reference, {hidden, head});
  for (size_t i = 0; i < got.size(); ++i) EXPECT_LT(MaxDifference(got[i], expected[i]), 1e-12) << i;
  const at::Tensor swapped = at::cat({hidden.narrow(0, 6, 6), hidden.narrow(0, 0, 6)});
  EXPECT_LT(MaxDifference(run(swapped).divergence, run(hidden).divergence), 1e-12);
  const at::Tensor equal = at::cat({hidden.narrow(0, 0, 6), hidden.narrow(0, 0, 6)});
  EXPECT_LT(run(equal).divergence.abs().max().item<double>(), 1e-15);
}

// More rows than one chunk: the parts have one chunk each.
TEST(ConsistencyCrossEntropyTest, IsTheSumOverPartsOfTheTokens) {
  at::manual_seed(4);
  constexpr int64_t kTokens = 300, kPart = 100, kVocabulary = 1200;
  const at::Tensor hidden = RandomLeaf({2 * kTokens, 4}), head = RandomLeaf({kVocabulary, 4});
  const at::Tensor targets = at::randint(0, kVocabulary, {kTokens}, at::kLong);
  const auto whole = [&] { return ConsistencyCrossEntropy(hidden, head, targets, 0.25, 2).total; };
  const auto parts = [&] {
    at::Tensor sum = at::zeros({}, at::kDouble);
    for (int64_t start = 0; start < kTokens; start += kPart) {
      const at::Tensor both =
          at::cat({hidden.narrow(0, start, kPart), hidden.narrow(0, kTokens + start, kPart)});
      sum =
          sum + ConsistencyCrossEntropy(both, head, targets.narrow(0, start, kPart), 0.25, 2).total;
    }
    return sum;
  };
  EXPECT_NEAR(whole().item<double>(), parts().item<double>(), 1e-9);
  const auto got = GradientsOf(whole, {hidden, head}),
             expected = GradientsOf(parts, {hidden, head});
  for (size_t i = 0; i < got.size(); ++i) EXPECT_LT(MaxDifference(got[i], expected[i]), 1e-10) << i;
}

// More rows than one chunk, with ignored targets, whose hidden states may be no numbers.
TEST(CrossEntropyTest, HighestOutputsAreThoseOfTokensWithTarget) {
  at::manual_seed(15);
  at::Tensor hidden = at::randn({1200, 5}), targets = at::randint(0, 3000, {1200}, at::kLong);
  const at::Tensor head = at::randn({3000, 5});
  at::Tensor expected = at::mm(hidden, head.t()).argmax(1).to(at::kInt);
  EXPECT_TRUE(
      at::equal(ScoreTokens(hidden, head, targets, 0, /*want_highest=*/true).highest, expected));
  targets.narrow(0, 100, 300).fill_(-1);
  expected.narrow(0, 100, 300).fill_(-1);
  hidden.narrow(0, 100, 300).fill_(std::numeric_limits<float>::quiet_NaN());
  EXPECT_TRUE(
      at::equal(ScoreTokens(hidden, head, targets, 0, /*want_highest=*/true).highest, expected));
}

}  // namespace cross_entropy_test
}  // namespace braid
