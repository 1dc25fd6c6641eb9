#include "model/routing/token_choice.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "model/kernels/chosen_softmax.h"
#include "model/routing/gate_noise.h"
#include "model/routing/training_dropout.h"
#include "tests/model/tensor_testing.h"

namespace braid {
namespace token_choice_test {

using Token = v1::TokenRouting;

Token TokenOf(Token::CombineWeights weights, int active) {
  Token token;
  token.set_gate(Token::LINEAR);
  token.set_selection(Token::TOP);
  token.set_combine_weights(weights);
  token.set_active_experts(active);
  return token;
}

// Applies every expert to every row and multiplies it by its weight, 0 where it was not chosen.
at::Tensor EveryExpert(const at::Tensor& x, const at::Tensor& chosen, const at::Tensor& weights,
                       const SoftExperts& experts) {
  at::Tensor y = at::zeros_like(x);
  for (int64_t e = 0; e < experts.down.size(0); ++e) {
    const at::Tensor gate = at::matmul(x, experts.gate_up[0][e].t());
    const at::Tensor up = at::matmul(x, experts.gate_up[1][e].t());
    const at::Tensor out = at::matmul(gate * at::sigmoid(gate) * up, experts.down[e]);
    const at::Tensor weight = (weights * chosen.eq(e)).sum(1, /*keepdim=*/true);
    y = y + out * weight;
  }
  return y;
}

class TokenChoiceTest : public testing::Test {
 protected:
  TokenChoiceTest() { at::manual_seed(4); }

  static constexpr int64_t kTokens = 9, kWidth = 6, kUnits = 5, kExperts = 4;
  const at::Tensor x_ = RandomLeaf({kTokens, kWidth}), scores_ = RandomLeaf({kTokens, kExperts});
  const SoftExperts experts_{RandomLeaf({2, kExperts, kUnits, kWidth}),
                             RandomLeaf({kExperts, kUnits, kWidth})};
};

// X-MoE (arXiv 2204.09179, section 3.2), element by element.
TEST_F(TokenChoiceTest, CosineScoresFollowTheirDefinition) {
  constexpr int64_t kProjection = 3;
  for (const double log_scale : {-0.5, 3.0, 9.0}) {
    const CosineGate gate{RandomLeaf({kProjection, kWidth}), RandomLeaf({kExperts, kProjection}),
                          at::full({1}, log_scale, at::kDouble).requires_grad_()};
    const at::Tensor scores = CosineScores(x_, gate);
    const double scale = std::min(std::exp(log_scale), 100.0);
    for (int64_t t = 0; t < kTokens; ++t) {
      for (int64_t e = 0; e < kExperts; ++e) {
        const at::Tensor a = at::mv(gate.projection, x_[t]), b = gate.vectors[e];
        const double cosine = (a.dot(b) / at::sqrt(a.dot(a) * b.dot(b))).item<double>();
        EXPECT_NEAR(scores[t][e].item<double>(), scale * cosine, 1e-9 * scale);
      }
    }
    if (log_scale > 5) continue;  // the bound has no gradient
    const at::Tensor upstream = at::randn({kTokens, kExperts}, at::kDouble);
    EXPECT_LT(FiniteDifferenceError([&] { return (CosineScores(x_, gate) * upstream).sum(); },
                                    {x_, gate.projection, gate.vectors, gate.log_scale}, 6),
              1e-6);
  }
}

TEST_F(TokenChoiceTest, RowsOfZerosHaveCosinesOfZeroAndNoGradient) {
  const at::Tensor values = at::randn({kExperts, 3}, at::kDouble);
  values[1].zero_();
  const at::Tensor x = x_.detach().clone();
  x[2].zero_();
  const CosineGate gate{RandomLeaf({3, kWidth}), values.requires_grad_(),
                        at::zeros({1}, at::kDouble).requires_grad_()};
  const at::Tensor upstream = at::randn({kTokens, kExperts}, at::kDouble);
  const std::vector<at::Tensor> leaves = {x.requires_grad_(), gate.projection, gate.vectors};
  const auto gradients =
      GradientsOf([&] { return (CosineScores(x, gate) * upstream).sum(); }, leaves);
  const auto largest = [](const at::Tensor& t) { return t.abs().max().item<double>(); };
  const at::Tensor scores = CosineScores(x, gate);
  EXPECT_EQ(largest(scores[2]), 0);
  EXPECT_EQ(largest(scores.select(1, 1)), 0);
  EXPECT_EQ(largest(gradients[0][2]), 0);
  EXPECT_EQ(largest(gradients[2][1]), 0);
  for (const at::Tensor& gradient : gradients) EXPECT_LT(largest(gradient), 1e6);
  EXPECT_GT(largest(gradients[0][3]), 0);
}

TEST_F(TokenChoiceTest, HashScoresNeedTokenIds) {
  v1::RoutingConfig config;
  config.mutable_token()->set_gate(Token::HASH);
  FfnWeights weights;
  weights.gate_up = experts_.gate_up;
  weights.down = experts_.down;
  weights.layer = 1;
  EXPECT_THROW(GateScores(x_, {}, weights, config), c10::Error);
  const at::Tensor ids = at::arange(kTokens, at::kLong) % 4;
  const at::Tensor scores = GateScores(x_, ids, weights, config);
  EXPECT_EQ(scores.sizes(), (std::vector<int64_t>{kTokens, kExperts}));
  EXPECT_TRUE(at::equal(scores[0], scores[4])) << "a function of the id";
  EXPECT_FALSE(at::equal(scores[0], scores[1]));
}

TEST_F(TokenChoiceTest, EachCombineWeightFollowsItsDefinition) {
  const at::Tensor all = at::softmax(scores_, 1);
  for (const int k : {1, 2, 4}) {
    const TokenChoice chosen = ChooseExperts(scores_, TokenOf(Token::SOFTMAX_OF_CHOSEN, k), false);
    const at::Tensor index = chosen.chosen.to(at::kLong);
    const at::Tensor kept = all.gather(1, index);
    EXPECT_LT(MaxDifference(chosen.weights, kept / kept.sum(1, true)), 1e-12);
    EXPECT_LT(MaxDifference(chosen.weights.sum(1), at::ones({kTokens}, at::kDouble)), 1e-12);
    const TokenChoice printed = ChooseExperts(scores_, TokenOf(Token::CHOSEN_OF_SOFTMAX, k), false);
    EXPECT_LT(MaxDifference(printed.weights, kept), 1e-12);
    const TokenChoice equal = ChooseExperts(scores_, TokenOf(Token::EQUAL, k), false);
    EXPECT_LT(MaxDifference(equal.weights, at::full({kTokens, k}, 1.0 / k, at::kDouble)), 1e-12);
    EXPECT_FALSE(ChooseExperts(scores_, TokenOf(Token::ONES, k), false).weights.defined());
    // The chosen scores are the k highest.
    EXPECT_LT(MaxDifference(std::get<0>(scores_.gather(1, index).sort(1, true)),
                            std::get<0>(scores_.topk(k))),
              1e-12);
  }
}

// The weights in single precision, by a kernel that processes 64 tokens together, against the
// operations in double precision.
TEST(ChosenSoftmaxTest, SinglePrecisionEqualsDoubleForAnyShape) {
  at::manual_seed(7);
  const std::vector<std::pair<int64_t, int64_t>> shapes = {{1, 1}, {5, 2}, {16, 16}, {70, 33}};
  for (const int64_t tokens : {1, 63, 65, 1100}) {
    for (const auto& [experts, k] : shapes) {
      const at::Tensor scores = RandomLeaf({tokens, experts});
      const at::Tensor chosen = std::get<1>(at::rand({tokens, experts}).topk(k)).to(at::kInt);
      const at::Tensor incoming = at::randn({tokens, k}, at::kDouble);
      const at::Tensor weights = ChosenSoftmax(scores, chosen);
      weights.backward(incoming);
      const at::Tensor narrow = scores.detach().to(at::kFloat).requires_grad_();
      const at::Tensor result = ChosenSoftmax(narrow, chosen);
      result.backward(incoming.to(at::kFloat));
      EXPECT_LE((result - weights).abs().max().item<double>(), 1e-6) << tokens << " " << experts;
      EXPECT_LE((narrow.grad() - scores.grad()).abs().max().item<double>(), 3e-6)
          << tokens << " " << experts;
    }
  }
}

// Any cut of the rows among threads gives the same bits.
TEST(ChosenSoftmaxTest, WeightsOfATokenDoNotDependOnItsPlace) {
  at::manual_seed(8);
  const at::Tensor scores = at::randn({200, 16}, at::kFloat);
  const at::Tensor chosen = std::get<1>(scores.topk(8)).to(at::kInt);
  const at::Tensor all = ChosenSoftmax(scores, chosen);
  for (const int64_t count : {1, 5, 37, 64, 101}) {
    for (int64_t first = 0; first + count <= 200; first += count) {
      const at::Tensor part =
          ChosenSoftmax(scores.narrow(0, first, count), chosen.narrow(0, first, count));
      EXPECT_TRUE(part.equal(all.narrow(0, first, count))) << first << " " << count;
    }
  }
}

TEST(ChosenSoftmaxTest, ScoreThatIsNotANumberReachesTheWeightsOfItsTokenOnly) {
  at::Tensor scores = at::randn({70, 4}, at::kFloat);
  scores[66][1] = std::nanf("");
  const at::Tensor chosen = at::arange(3, at::kInt).expand({70, 3}).contiguous();
  const at::Tensor undefined = ChosenSoftmax(scores, chosen).isnan();
  EXPECT_EQ(undefined.sum().item<int64_t>(), 3);
  EXPECT_TRUE(undefined[66].all().item<bool>());
}

TEST_F(TokenChoiceTest, FfnEqualsEveryExpertOnEveryRowForwardAndBackward) {
  const at::Tensor upstream = at::randn({kTokens, kWidth}, at::kDouble);
  for (const auto weights : {Token::SOFTMAX_OF_CHOSEN, Token::CHOSEN_OF_SOFTMAX}) {
    const auto choose = [&] { return ChooseExperts(scores_, TokenOf(weights, 2), false); };
    const auto layer = [&] { return (TokenChoiceFfn(x_, choose(), experts_) * upstream).sum(); };
    const auto reference = [&] {
      const TokenChoice choice = choose();
      return (EveryExpert(x_, choice.chosen, choice.weights, experts_) * upstream).sum();
    };
    const std::vector<at::Tensor> leaves = {x_, scores_, experts_.gate_up, experts_.down};
    EXPECT_NEAR(layer().item<double>(), reference().item<double>(), 1e-10);
    const auto got = GradientsOf(layer, leaves), expected = GradientsOf(reference, leaves);
    for (size_t i = 0; i < leaves.size(); ++i) {
      EXPECT_LT(MaxDifference(got[i], expected[i]), 1e-10) << i;
    }
    EXPECT_LT(FiniteDifferenceError(layer, leaves, 10), 1e-6);
  }
}

// The kernel of single precision against the same function in double.
TEST_F(TokenChoiceTest, SinglePrecisionEqualsDouble) {
  for (const auto weights : {Token::SOFTMAX_OF_CHOSEN, Token::ONES}) {
    const auto run = [&](const std::vector<at::Tensor>& v) {
      const TokenChoice choice = ChooseExperts(v[1], TokenOf(weights, 3), false);
      return TokenChoiceFfn(v[0], choice, {v[2], v[3]}).pow(2).sum().to(at::kDouble);
    };
    const std::vector<at::Tensor> leaves = {x_, scores_, experts_.gate_up, experts_.down};
    std::vector<at::Tensor> single;
    for (const at::Tensor& leaf : leaves) {
      single.push_back(leaf.detach().to(at::kFloat).requires_grad_());
    }
    const auto used = [&](const std::vector<at::Tensor>& v) {
      return weights == Token::ONES ? std::vector<at::Tensor>{v[0], v[2], v[3]} : v;
    };
    const auto got = GradientsOf([&] { return run(single); }, used(single));
    const auto expected = GradientsOf([&] { return run(leaves); }, used(leaves));
    for (size_t i = 0; i < got.size(); ++i) {
      EXPECT_LT(MaxDifference(got[i].to(at::kDouble), expected[i]) /
                    expected[i].abs().max().item<double>(),
                2e-5)
          << i;
    }
  }
}

TEST_F(TokenChoiceTest, FrozenExpertsAndConstantWeightsGetNoGradient) {
  const at::Tensor x = x_.detach().to(at::kFloat).requires_grad_();
  const TokenChoice choice =
      ChooseExperts(scores_.detach().to(at::kFloat), TokenOf(Token::SOFTMAX_OF_CHOSEN, 2), false);
  const SoftExperts frozen{experts_.gate_up.detach().to(at::kFloat),
                           experts_.down.detach().to(at::kFloat)};
  TokenChoiceFfn(x, choice, frozen).sum().backward();
  EXPECT_GT(x.grad().abs().max().item<double>(), 0);
  EXPECT_FALSE(frozen.down.grad().defined());
}

TEST_F(TokenChoiceTest, KeyMeanScoresAreTheMeanPreActivationsAndGiveTheKeysNoGradient) {
  v1::RoutingConfig config;
  config.set_router_input(v1::PLAIN_MEAN);
  config.mutable_token()->set_gate(Token::KEY_MEAN);
  FfnWeights weights;
  weights.gate_up = experts_.gate_up;
  weights.down = experts_.down;
  const at::Tensor scores = GateScores(x_, {}, weights, config);
  for (int64_t e = 0; e < kExperts; ++e) {
    const at::Tensor mean = at::matmul(x_, experts_.gate_up[0][e].t()).mean(1);
    EXPECT_LT(MaxDifference(scores.select(1, e), mean), 1e-12);
  }
  scores.sum().backward();
  EXPECT_TRUE(x_.grad().defined());
  EXPECT_FALSE(experts_.gate_up.grad().defined());
}

TEST_F(TokenChoiceTest, CenteredGatesSeeTheInputLessItsMean) {
  v1::RoutingConfig config;
  config.set_router_input(v1::PLAIN_MEAN);
  for (const Token::Gate gate : {Token::LINEAR, Token::KEY_MEAN, Token::COSINE}) {
    config.mutable_token()->set_gate(gate);
    FfnWeights weights;
    weights.router = RandomLeaf({kExperts, gate == Token::COSINE ? 3 : kWidth});
    weights.router_projection = RandomLeaf({3, kWidth});
    weights.router_scale = at::zeros({1}, at::kDouble);
    weights.gate_up = experts_.gate_up;
    const at::Tensor mean = at::randn({kWidth}, at::kDouble);
    const at::Tensor expected = GateScores(x_ - mean, {}, weights, config);
    weights.input_mean = mean;
    EXPECT_LT(MaxDifference(GateScores(x_, {}, weights, config), expected), 1e-12) << gate;
  }
}

TEST_F(TokenChoiceTest, ScoreThatIsNotANumberNamesItsToken) {
  const at::Tensor scores = scores_.detach().clone();
  scores[3][1] = std::numeric_limits<double>::quiet_NaN();
  const Token token = TokenOf(Token::SOFTMAX_OF_CHOSEN, 2);
  EXPECT_THROW(ChooseExperts(scores, token, /*allow_nan=*/false), c10::Error);
  EXPECT_EQ(ChooseExperts(scores, token, /*allow_nan=*/true).chosen.size(0), kTokens);
}

// The last expert is not chosen where a choice is arbitrary.
TEST_F(TokenChoiceTest, ScoreThatIsNotANumberReachesTheOutputOfItsTokenOnly) {
  const at::Tensor scores = scores_.detach().clone();
  scores[3][kExperts - 1] = std::numeric_limits<double>::quiet_NaN();
  for (const auto weights :
       {Token::SOFTMAX_OF_CHOSEN, Token::CHOSEN_OF_SOFTMAX, Token::EQUAL, Token::ONES}) {
    for (const at::ScalarType type : {at::kDouble, at::kFloat}) {
      const auto as = [&](const at::Tensor& t) { return t.detach().to(type); };
      const TokenChoice choice = ChooseExperts(as(scores), TokenOf(weights, 2), /*allow_nan=*/true);
      const at::Tensor undefined =
          TokenChoiceFfn(as(x_), choice, {as(experts_.gate_up), as(experts_.down)}).isnan().any(1);
      EXPECT_EQ(undefined.sum().item<int64_t>(), 1) << weights << " " << type;
      EXPECT_TRUE(undefined[3].item<bool>()) << weights << " " << type;
    }
  }
}

TEST_F(TokenChoiceTest, BalanceLossOfEvenLoadsAndScoresIsOneAndPaddingDoesNotCount) {
  const at::Tensor probabilities = at::full({2, 4, 4}, 0.25, at::kDouble);
  const at::Tensor chosen = at::tensor({0, 1, 2, 3, 0, 1, 2, 3}, at::kInt).view({2, 4, 1});
  at::Tensor counted = at::ones({2, 4}, at::kDouble);
  EXPECT_LT(MaxDifference(BalanceLoss(probabilities, chosen, counted), at::ones({2}, at::kDouble)),
            1e-12);
  // Sequence 1 is padding only; sequence 0 keeps its first token.
  counted.zero_();
  counted[0][0] = 1;
  const at::Tensor skewed = at::zeros({2, 4, 4}, at::kDouble);
  skewed.select(2, 0).fill_(1);
  const at::Tensor loss = BalanceLoss(skewed, chosen, counted);
  EXPECT_DOUBLE_EQ(loss[0].item<double>(), 4);
  EXPECT_DOUBLE_EQ(loss[1].item<double>(), 0);
}

// ReMoE (arXiv 2412.14711), equations 4 and 6.
TEST_F(TokenChoiceTest, ReluChoosesPositiveScoresAndHasThemAsWeights) {
  Token token = TokenOf(Token::SCORES, 2);
  token.set_gate(Token::RELU);
  const TokenChoice choice = ChooseExperts(scores_, token, /*allow_nan=*/false);
  const at::Tensor experts = at::arange(kExperts, at::kInt).expand({kTokens, kExperts});
  EXPECT_TRUE(at::equal(choice.chosen, experts.masked_fill(scores_.le(0), -1)));
  EXPECT_LT(MaxDifference(choice.weights, scores_.clamp_min(0)), 1e-15);
}

TEST_F(TokenChoiceTest, GatePenaltyIsTheMeanSumOfTheGatesOfTheTokensThatCount) {
  const at::Tensor gates = at::rand({2, 3, kExperts}, at::kDouble);
  at::Tensor counted = at::ones({2, 3}, at::kDouble);
  counted[0][1] = 0;
  counted[1].zero_();
  const at::Tensor penalty = GatePenalty(gates, counted);
  const double expected = (gates[0][0].sum() + gates[0][2].sum()).item<double>() / 2;
  EXPECT_NEAR(penalty[0].item<double>(), expected, 1e-12);
  EXPECT_EQ(penalty[1].item<double>(), 0);
}

TEST(GateNoiseTest, IsAFunctionOfItsKeysAndNothingElse) {
  const std::vector<int64_t> one = {7}, two = {3, 7};
  const auto draw = [](uint64_t seed, int64_t step, int layer, std::span<const int64_t> instances) {
    RoutingContext context;
    context.seed = seed;
    context.step = step;
    context.layer = layer;
    context.instances = instances;
    return UniformScores(context, std::ssize(instances), 5, 3);
  };
  const at::Tensor scores = draw(1, 2, 0, two);
  EXPECT_TRUE(draw(1, 2, 0, two).equal(scores));
  EXPECT_TRUE(draw(1, 2, 0, one).equal(scores.narrow(0, 5, 5)));
  EXPECT_FALSE(draw(2, 2, 0, two).equal(scores));
  EXPECT_FALSE(draw(1, 3, 0, two).equal(scores));
  EXPECT_FALSE(draw(1, 2, 1, two).equal(scores));
}

// More numbers than a thread takes at a time.
TEST(GateNoiseTest, NumbersDoNotDependOnThreads) {
  RoutingContext context;
  v1::DropoutConfig dropout;
  dropout.set_kind(v1::DropoutConfig::BERNOULLI);
  context.dropout = &dropout;
  const auto draw = [&] {
    return std::vector<at::Tensor>{UniformScores(context, 3, 1000, 5),
                                   NormalNoise(context, 3, 1000, 5),
                                   DropoutOf(context, {}, 3, 1000, 8).keys};
  };
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  const std::vector<at::Tensor> expected = draw();
  for (const int count : {2, 3}) {
    at::set_num_threads(count);
    const std::vector<at::Tensor> got = draw();
    for (size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(got[i].equal(expected[i])) << i;
  }
  at::set_num_threads(threads);
}

TEST(GateNoiseTest, UniformAndNormalNumbersHaveTheirMoments) {
  const RoutingContext context;
  const at::Tensor uniform = UniformScores(context, 2, 5000, 10).to(at::kDouble);
  EXPECT_NEAR(uniform.mean().item<double>(), 0.5, 5 * std::sqrt(1.0 / 12 / 1e5));
  const at::Tensor normal = NormalNoise(context, 2, 5000, 10).to(at::kDouble);
  EXPECT_NEAR(normal.mean().item<double>(), 0, 5 / std::sqrt(1e5));
  EXPECT_NEAR(normal.pow(2).mean().item<double>(), 1, 5 * std::sqrt(2 / 1e5));
}

}  // namespace token_choice_test
}  // namespace braid
