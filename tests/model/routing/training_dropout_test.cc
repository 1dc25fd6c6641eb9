#include "model/routing/training_dropout.h"

#include <ATen/ATen.h>

#include <cmath>

#include "gtest/gtest.h"
#include "tests/model/tensor_testing.h"

namespace braid {
namespace training_dropout_test {

TEST(TrainingDropoutTest, LossOfALearnedRateFollowsItsFormula) {
  at::manual_seed(3);
  constexpr int64_t kUnits = 70;
  FfnWeights weights;
  EXPECT_FALSE(ConcreteLoss(weights, kUnits).defined());
  weights.down = RandomLeaf({3, 4, 5});
  const double squares = weights.down.square().sum().item<double>();
  for (const double p : {0.1, 0.5, 0.99}) {
    weights.dropout_logit = at::full({1}, std::log(p / (1 - p)), at::kDouble).requires_grad_();
    const double expected =
        1e-6 * squares / (1 - p) + 1e-5 * kUnits * (p * std::log(p) + (1 - p) * std::log(1 - p));
    EXPECT_NEAR(ConcreteLoss(weights, kUnits).item<double>(), expected, 1e-12) << p;
    EXPECT_LT(FiniteDifferenceError([&] { return ConcreteLoss(weights, kUnits); },
                                    {weights.down, weights.dropout_logit}, 6),
              1e-10)
        << p;
  }
}

TEST(TrainingDropoutTest, ExpertsAreDroppedAtTheirRateAndTheOthersRescaled) {
  constexpr int64_t kBatch = 2, kLength = 4000;
  constexpr double kTokens = kBatch * kLength;
  at::manual_seed(4);
  const at::Tensor chosen = at::tensor({1, 4}, at::kInt).repeat({kBatch * kLength, 1});
  const at::Tensor random = at::rand({kBatch * kLength, 2}, at::kDouble);
  v1::DropoutConfig dropout;
  dropout.set_kind(v1::DropoutConfig::EXPERTS);
  RoutingContext context;
  context.dropout = &dropout;
  for (const double rate : {0.2, 0.7}) {
    dropout.set_rate(rate);
    for (const bool weighted : {true, false}) {
      const TokenChoice kept = DropExperts({chosen, weighted ? random : at::Tensor()}, context,
                                           kBatch, kLength, at::TensorOptions(at::kDouble));
      const at::Tensor dropped = kept.chosen.eq(-1);
      EXPECT_TRUE(kept.chosen.eq(chosen).logical_or(dropped).all().item<bool>());
      const auto share = [](const at::Tensor& x) {
        return x.to(at::kDouble).mean().item<double>();
      };
      const auto sigma = [](double p, double n) { return std::sqrt(p * (1 - p) / n); };
      EXPECT_NEAR(share(dropped), rate, 5 * sigma(rate, 2 * kTokens));
      EXPECT_NEAR(share(dropped.all(1)), rate * rate, 5 * sigma(rate * rate, kTokens));
      const at::Tensor weights = weighted ? random : at::ones_like(random);
      EXPECT_LT(MaxDifference(kept.weights, weights / (1 - rate)), 1e-12);
    }
  }
}

}  // namespace training_dropout_test
}  // namespace braid
