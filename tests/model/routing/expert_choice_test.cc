#include "model/routing/expert_choice.h"

#include <limits>
#include <vector>

#include "gtest/gtest.h"
#include "model/routing/token_choice.h"
#include "tests/model/tensor_testing.h"

namespace braid {
namespace expert_choice_test {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

at::Tensor BoolRows(const std::vector<std::vector<int>>& rows) {
  at::Tensor result = at::zeros(
      {static_cast<int64_t>(rows.size()), static_cast<int64_t>(rows[0].size())}, at::kBool);
  for (size_t i = 0; i < rows.size(); ++i) {
    for (size_t j = 0; j < rows[i].size(); ++j) result[i][j] = rows[i][j] != 0;
  }
  return result;
}

struct SparseCase {
  at::Tensor x, gates, chosen;
  SoftExperts experts;

  // T 7, D 5, E 4, F 6: expert 2 has no row, row 3 no expert, row 0 three experts.
  static SparseCase Make() {
    at::manual_seed(5);
    return {RandomLeaf({7, 5}),
            RandomLeaf({7, 4}),
            BoolRows({{1, 1, 0, 1},
                      {0, 1, 0, 0},
                      {1, 0, 0, 0},
                      {0, 0, 0, 0},
                      {0, 0, 0, 1},
                      {1, 0, 0, 1},
                      {0, 1, 0, 0}}),
            {RandomLeaf({2, 4, 6, 5}), RandomLeaf({4, 6, 5})}};
  }

  std::vector<at::Tensor> leaves() const { return {x, gates, experts.gate_up, experts.down}; }

  at::Tensor Run() const { return TokenChoiceFfn(x, MaskedChoice(gates, chosen), experts); }

  // Applies every expert to every row and multiplies those not chosen by 0.
  at::Tensor Reference() const {
    at::Tensor y = at::zeros({7, 5}, at::kDouble);
    for (int64_t e = 0; e < 4; ++e) {
      const at::Tensor gate = at::matmul(x, experts.gate_up[0][e].t());
      const at::Tensor up = at::matmul(x, experts.gate_up[1][e].t());
      const at::Tensor out = at::matmul(gate * at::sigmoid(gate) * up, experts.down[e]);
      y = y + out * (gates * chosen).select(1, e).unsqueeze(1);
    }
    return y;
  }
};

TEST(MaskedChoiceTest, EqualsEveryExpertOnEveryRowForwardAndBackward) {
  const SparseCase c = SparseCase::Make();
  EXPECT_LT(MaxDifference(c.Run(), c.Reference()), 1e-12);
  const at::Tensor weights = at::randn({7, 5}, at::kDouble);
  const auto got = GradientsOf([&] { return (c.Run() * weights).sum(); }, c.leaves());
  const auto expected = GradientsOf([&] { return (c.Reference() * weights).sum(); }, c.leaves());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_LT(MaxDifference(got[i], expected[i]), 1e-12) << i;
}

TEST(MaskedChoiceTest, RowsChosenByNoExpertGetZeros) {
  SparseCase c = SparseCase::Make();
  EXPECT_EQ(c.Run()[3].abs().max().item<double>(), 0);
  c.chosen = at::zeros({7, 4}, at::kBool);
  const auto gradients = GradientsOf([&] { return c.Run().sum(); }, c.leaves());
  for (const at::Tensor& gradient : gradients) {
    EXPECT_EQ(gradient.abs().max().item<double>(), 0);
  }
}

TEST(MaskedChoiceTest, WorksInSinglePrecision) {
  const SparseCase c = SparseCase::Make();
  const at::Tensor y =
      TokenChoiceFfn(c.x.to(at::kFloat), MaskedChoice(c.gates.to(at::kFloat), c.chosen),
                     {c.experts.gate_up.to(at::kFloat), c.experts.down.to(at::kFloat)});
  EXPECT_LT(MaxDifference(y.to(at::kDouble), c.Run()), 1e-4);
}

TEST(ExpertChoiceTest, EachExpertTakesItsBestRowsOfEachSequence) {
  const at::Tensor scores =
      at::tensor({.9, .1, .8, .2, .3, .7, .6, .4, /*second*/ .1, .9, .2, .8, .4, .6, .3, .7})
          .view({2, 4, 2});
  const at::Tensor expected =
      BoolRows({{1, 0}, {1, 0}, {0, 1}, {0, 1}, {0, 1}, {0, 1}, {1, 0}, {1, 0}}).view({2, 4, 2});
  EXPECT_TRUE(at::equal(ExpertChoice(scores, 2), expected));
}

TEST(ExpertChoiceTest, TiesGoToTheLowestIndex) {
  // Longer than the sizes that sorting networks handle.
  const at::Tensor scores = at::full({1, 100, 3}, 0.25);
  const at::Tensor chosen = ExpertChoice(scores, 34);
  EXPECT_TRUE(chosen.narrow(1, 0, 34).all().item<bool>());
  EXPECT_FALSE(chosen.narrow(1, 34, 66).any().item<bool>());
  const at::Tensor best = BestExperts(scores);
  EXPECT_TRUE(best.select(2, 0).all().item<bool>());
  EXPECT_FALSE(best.narrow(2, 1, 2).any().item<bool>());
}

// A run with NaN scores ends with an error that names the step, so NaN must propagate to the loss.
TEST(ExpertChoiceTest, NanScoresAreChosenAndPropagate) {
  at::Tensor scores = at::rand({2, 6, 3}, at::kDouble);
  scores[1][4][0] = kNan;
  for (const at::Tensor& chosen :
       {ExpertChoice(scores, 2), ExpertChoice(at::full_like(scores, kNan), 2)}) {
    EXPECT_TRUE((chosen.sum(1) == 2).all().item<bool>());
    EXPECT_TRUE(chosen[1][4][0].item<bool>() || chosen[1][0][0].item<bool>());
  }
  EXPECT_TRUE((BestExperts(scores).sum(2) == 1).all().item<bool>());
  SparseCase c = SparseCase::Make();
  c.gates = at::full({7, 4}, kNan, at::kDouble).requires_grad_();
  EXPECT_TRUE(at::isnan(c.Run()[0]).all().item<bool>());
  EXPECT_TRUE(
      at::isnan(GradientsOf([&] { return c.Run().sum(); }, c.leaves())[0]).any().item<bool>());
}

}  // namespace expert_choice_test
}  // namespace braid
