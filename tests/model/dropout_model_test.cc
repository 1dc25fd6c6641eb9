// Dropout and the consistency loss in a whole model: what random numbers depend on, that evaluation
// has none, and the losses of learned rates.
#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "model/config/model_config.h"
#include "tests/model/random_model.h"

namespace braid {
namespace dropout_model_test {

using Dropout = v1::DropoutConfig;

constexpr int64_t kLength = 24;
constexpr int kVocab = 50;

v1::ModelConfig DropoutModelConfig(v1::Router router, Dropout::Kind kind, double rate) {
  v1::ModelConfig config =
      router == v1::DENSE ? SmallModelConfig(1) : SmallModelConfig(4, v1::TOKEN_CHOICE);
  if (kind != Dropout::KIND_UNSPECIFIED) {
    config.mutable_dropout()->set_kind(kind);
    config.mutable_dropout()->set_rate(rate);
    if (kind == Dropout::DROP_BLOCK) config.mutable_dropout()->set_block_size(3);
  }
  return ResolveModelConfig(config).value();
}

struct Tokens {
  std::vector<int32_t> inputs, targets;
};

Tokens RandomBatch(int64_t batch, uint32_t seed = 1) {
  std::mt19937 random(seed);
  return {RandomTokens(batch * kLength, kVocab, &random),
          RandomTokens(batch * kLength, kVocab, &random)};
}

struct Pass {
  TrainResult result;
  std::vector<float> gradient;
};

Pass PassOf(LanguageModel& model, const Tokens& tokens, int64_t batch,
            const BatchIdentity& identity) {
  std::ranges::fill(model.gradients(), 0.0f);
  Pass pass;
  pass.result =
      model.ForwardBackward(tokens.inputs, tokens.targets, batch, 0.5, false, nullptr, identity)
          .value();
  pass.gradient.assign(model.gradients().begin(), model.gradients().end());
  return pass;
}

struct KindCase {
  v1::Router router;
  Dropout::Kind kind;
};

std::vector<KindCase> AllKinds() {
  std::vector<KindCase> all;
  for (const v1::Router router : {v1::DENSE, v1::TOKEN_CHOICE}) {
    for (const auto kind : {Dropout::BERNOULLI, Dropout::DROP_BLOCK, Dropout::CONCRETE}) {
      all.push_back({router, kind});
    }
  }
  all.push_back({v1::TOKEN_CHOICE, Dropout::EXPERTS});
  return all;
}

TEST(DropoutModelTest, EvaluationHasNone) {
  for (const KindCase& c : AllKinds()) {
    const auto plain = SharpModel(DropoutModelConfig(c.router, {}, 0), 2);
    const auto dropped = SharpModel(DropoutModelConfig(c.router, c.kind, 0.4), 2);
    const Tokens tokens = RandomBatch(1);
    for (const Parameter& p : dropped->parameters()) {
      if (!p.name.ends_with("dropout.logit")) continue;
      EXPECT_NEAR(p.value[0], std::log(0.4 / 0.6), 1e-5);
    }
    EXPECT_EQ(dropped->Logits(tokens.inputs, 1).value(), plain->Logits(tokens.inputs, 1).value());
  }
}

TEST(DropoutModelTest, MasksChangeWithStepAndSeedAndNotWithTheCutOfTheBatch) {
  const Tokens both = RandomBatch(2, 3);
  const std::vector<int64_t> instances = {41, 17};
  for (const KindCase& c : AllKinds()) {
    const auto model = SharpModel(DropoutModelConfig(c.router, c.kind, 0.4), 2);
    const auto at = [&](uint64_t seed, int64_t step) {
      return PassOf(*model, both, 2, {.seed = seed, .step = step, .instances = instances});
    };
    const Pass first = at(9, 5);
    EXPECT_EQ(at(9, 5).gradient, first.gradient);
    EXPECT_NE(at(9, 6).result.loss_sum, first.result.loss_sum);
    EXPECT_NE(at(8, 5).result.loss_sum, first.result.loss_sum);
    std::vector<float> sum(first.gradient.size());
    double loss = 0;
    for (int i = 0; i < 2; ++i) {
      const auto part = [&](const std::vector<int32_t>& all) {
        return std::vector<int32_t>(all.begin() + i * kLength, all.begin() + (i + 1) * kLength);
      };
      const Pass one =
          PassOf(*model, {part(both.inputs), part(both.targets)}, 1,
                 {.seed = 9, .step = 5, .instances = std::span(instances).subspan(i, 1)});
      for (size_t j = 0; j < sum.size(); ++j) sum[j] += one.gradient[j];
      loss += one.result.loss_sum;
    }
    EXPECT_LT(MaxDifference(sum, first.gradient), 1e-4);
    EXPECT_NEAR(loss, first.result.loss_sum, 1e-4);
  }
}

// The pseudo-code of arXiv 1705.07832, appendix C, adds to the loss of the batch.
TEST(DropoutModelTest, ConcreteRatesHaveTheGradientOfLossAndRegularizers) {
  for (const v1::Router router : {v1::DENSE, v1::TOKEN_CHOICE}) {
    const auto model = SharpModel(DropoutModelConfig(router, Dropout::CONCRETE, 0.2), 2);
    const Tokens tokens = RandomBatch(2);
    const double units = router == v1::DENSE ? 24 : 2 * 6;
    const auto loss = [&] {
      double total = model->ForwardBackward(tokens.inputs, tokens.targets, 2, 0, false)->loss_sum;
      // The rate of layer 1, the only one that changes below.
      double p = 0;
      for (const Parameter& parameter : model->parameters()) {
        if (parameter.name.ends_with("dropout.logit")) p = parameter.value[0];
      }
      p = 1 / (1 + std::exp(-p));
      double squares = 0;
      for (const Parameter& parameter : model->parameters()) {
        if (parameter.name.find("layers.1.mlp") == std::string::npos ||
            parameter.name.find("down_proj") == std::string::npos) {
          continue;
        }
        for (float w : parameter.value) squares += double{w} * w;
      }
      total +=
          2 * kLength *
          (1e-6 * squares / (1 - p) + 1e-5 * units * (p * std::log(p) + (1 - p) * std::log(1 - p)));
      return 0.5 * total;
    };
    const Pass pass = PassOf(*model, tokens, 2, {});
    int rates = 0;
    for (const Parameter& parameter : model->parameters()) {
      if (parameter.name != "model.layers.1.mlp.dropout.logit") continue;
      ++rates;
      const float before = parameter.value[0], step = 1.0f / 64;
      parameter.value[0] = before + step;
      const double above = loss();
      parameter.value[0] = before - step;
      const double below = loss();
      parameter.value[0] = before;
      const double slope = (above - below) / (2 * step);
      EXPECT_NEAR(pass.gradient[parameter.value.data() - model->values().data()], slope,
                  0.02 * (1 + std::abs(slope)));
    }
    EXPECT_EQ(rates, 1);
  }
}

// At a rate next to 1 no unit passes, so the gradient is that of the penalty of the weights, which
// every token with a target adds.
TEST(DropoutModelTest, ConcreteRegularizersCountOncePerToken) {
  for (const v1::Router router : {v1::DENSE, v1::TOKEN_CHOICE}) {
    const auto model = SharpModel(DropoutModelConfig(router, Dropout::CONCRETE, 0.2), 2);
    double squares = 0;
    int64_t logit = -1;
    for (const Parameter& p : model->parameters()) {
      if (p.name.ends_with("dropout.logit")) p.value[0] = 14;
      if (!p.name.starts_with("model.layers.1.mlp")) continue;
      if (p.name.ends_with("dropout.logit")) logit = p.value.data() - model->values().data();
      if (p.name.find("down_proj") == std::string::npos) continue;
      for (const float w : p.value) squares += double{w} * w;
    }
    ASSERT_GE(logit, 0);
    Tokens tokens = RandomBatch(2);
    std::fill_n(tokens.targets.begin(), 10, -1);
    const double expected = 0.5 * (2 * kLength - 10) * 1e-6 * squares * std::exp(14.0);
    EXPECT_NEAR(PassOf(*model, tokens, 2, {}).gradient[logit], expected, 1e-3 * expected);
  }
}

// The FFN of layer 0 then has no other argument that needs a gradient.
TEST(DropoutModelTest, ConcreteRatesHaveTheSameGradientWhereNothingElseIsTrained) {
  const Tokens tokens = RandomBatch(2);
  for (const v1::Router router : {v1::DENSE, v1::TOKEN_CHOICE}) {
    const auto whole = SharpModel(DropoutModelConfig(router, Dropout::CONCRETE, 0.2), 2);
    v1::Finetuning rates;
    rates.add_train("*dropout.logit");
    const auto part = LanguageModel::Create(whole->config(), 3, rates).value();
    const auto in_whole = [&](const Parameter& p) {
      return *std::ranges::find(whole->parameters(), p.name, &Parameter::name);
    };
    for (const Parameter& p : part->parameters()) {
      std::ranges::copy(in_whole(p).value, p.value.begin());
    }
    const Pass expected = PassOf(*whole, tokens, 2, {.seed = 1});
    EXPECT_NEAR(PassOf(*part, tokens, 2, {.seed = 1}).result.loss_sum, expected.result.loss_sum,
                1e-4);
    int rate_count = 0;
    for (const Parameter& p : part->parameters()) {
      if (p.gradient.empty()) continue;
      ++rate_count;
      const float want = in_whole(p).gradient[0];
      EXPECT_NE(want, 0) << p.name;
      EXPECT_NEAR(p.gradient[0], want, 1e-5 * (1 + std::abs(want))) << p.name;
    }
    EXPECT_EQ(rate_count, 2);
  }
}

TEST(DropoutModelTest, ConcreteLogitsBeyondTheirBoundComputeAsAtTheBound) {
  const Tokens tokens = RandomBatch(2);
  for (const v1::Router router : {v1::DENSE, v1::TOKEN_CHOICE}) {
    const auto model = SharpModel(DropoutModelConfig(router, Dropout::CONCRETE, 0.2), 2);
    const auto with = [&](float logit) {
      for (const Parameter& p : model->parameters()) {
        if (p.name.ends_with("dropout.logit")) p.value[0] = logit;
      }
      return PassOf(*model, tokens, 2, {.seed = 1});
    };
    for (const float sign : {-1.0f, 1.0f}) {
      const Pass bound = with(30 * sign), beyond = with(200 * sign);
      EXPECT_TRUE(std::isfinite(bound.result.loss_sum));
      EXPECT_EQ(beyond.result.loss_sum, bound.result.loss_sum);
      EXPECT_TRUE(std::ranges::all_of(bound.gradient, [](float g) { return std::isfinite(g); }));
      EXPECT_EQ(beyond.gradient, bound.gradient);
    }
    // A rate near 1 costs more than the loss gains: the logit is pushed back.
    const Pass high = with(200);
    int rates = 0;
    for (const Parameter& p : model->parameters()) {
      if (!p.name.ends_with("dropout.logit")) continue;
      ++rates;
      EXPECT_GT(high.gradient[p.value.data() - model->values().data()], 0) << p.name;
    }
    EXPECT_EQ(rates, 2);
  }
}

TEST(DropoutModelTest, AllExpertsWithWeightsOfOneDropTheUnitsOfTheDenseModel) {
  v1::ModelConfig config = DropoutModelConfig(v1::TOKEN_CHOICE, Dropout::BERNOULLI, 0.3);
  v1::TokenRouting* token = config.mutable_routing()->mutable_token();
  token->set_gate(v1::TokenRouting::KEY_MEAN);
  token->set_combine_weights(v1::TokenRouting::ONES);
  token->set_active_experts(4);
  config = ResolveModelConfig(config).value();
  const auto routed = SharpModel(config, 5);
  const auto dense = LanguageModel::Create(DenseCounterpart(config), 6).value();
  std::ranges::copy(routed->values(), dense->values().begin());
  const Tokens tokens = RandomBatch(3);
  EXPECT_EQ(PassOf(*routed, tokens, 3, {.seed = 1}).gradient,
            PassOf(*dense, tokens, 3, {.seed = 1}).gradient);
}

TEST(DropoutModelTest, SettingsThatCannotWorkAreRefusedByName) {
  const auto error = [](const std::string& text) {
    v1::ModelConfig config = SmallModelConfig(4, v1::CAUSAL_SEGMENT);
    if (text == "router") config.mutable_dropout()->set_rate(0.1);
    if (text == "rate") {
      config = SmallModelConfig(1);
      config.mutable_dropout()->set_rate(1);
    }
    if (text == "experts") {
      config = SmallModelConfig(1);
      config.mutable_dropout()->set_kind(Dropout::EXPERTS);
    }
    if (text == "block") {
      config = SmallModelConfig(1);
      config.mutable_dropout()->set_block_size(3);
    }
    if (text == "narrow") {
      config = SmallModelConfig(4, v1::TOKEN_CHOICE);
      config.mutable_dropout()->set_kind(Dropout::DROP_BLOCK);
    }
    if (text == "consistency") config.set_consistency_loss(2);
    return std::string(ResolveModelConfig(config).status().message());
  };
  EXPECT_EQ(
      error("router"),
      "model.dropout: the router is CAUSAL_SEGMENT, expected DENSE or TOKEN_CHOICE; leave dropout "
      "unset");
  EXPECT_EQ(error("rate"), "model.dropout.rate: got 1, expected at least 0 and less than 1");
  EXPECT_EQ(error("experts"),
            "model.dropout.kind: got EXPERTS, but the router is DENSE, expected TOKEN_CHOICE; use "
            "BERNOULLI");
  EXPECT_EQ(
      error("block"),
      "model.dropout.block_size: got 3, but the kind is BERNOULLI; set dropout.kind=DROP_BLOCK or "
      "leave it unset");
  EXPECT_EQ(error("narrow"),
            "model.dropout.block_size: got 7, expected 1 to 6, the units of an expert (its default "
            "is 7)");
  EXPECT_EQ(
      error("consistency"),
      "model.consistency_loss: got 2, but both passes would be the same; use the gate RANDOM, "
      "routing.token.gate_noise_std or dropout.rate, or set it to 0");
  v1::ModelConfig none = SmallModelConfig(1);
  none.mutable_dropout()->set_rate(0);
  EXPECT_FALSE(ResolveModelConfig(none)->has_dropout());
}

v1::ModelConfig ThorConfig(double c) {
  v1::ModelConfig config = SmallModelConfig(4, v1::TOKEN_CHOICE);
  config.mutable_routing()->mutable_token()->set_gate(v1::TokenRouting::RANDOM);
  config.mutable_routing()->mutable_token()->set_combine_weights(v1::TokenRouting::EQUAL);
  config.mutable_routing()->mutable_token()->set_active_experts(1);
  if (c > 0) config.set_consistency_loss(c);
  return ResolveModelConfig(config).value();
}

TEST(ConsistencyLossTest, IsTheMeanOfTwoPassesPlusTheDivergence) {
  const Tokens tokens = RandomBatch(2);
  const auto once = SharpModel(ThorConfig(0), 2), twice = SharpModel(ThorConfig(2), 2);
  const Pass first = PassOf(*once, tokens, 2, {.seed = 1, .step = 4});
  const Pass both = PassOf(*twice, tokens, 2, {.seed = 1, .step = 4});
  EXPECT_GT(both.result.divergence_sum, 0.1);
  EXPECT_NE(both.result.loss_sum, first.result.loss_sum);
  EXPECT_NEAR(both.result.loss_sum, first.result.loss_sum, 0.2 * first.result.loss_sum);
  EXPECT_EQ(both.result.num_tokens, 2 * kLength);
}

// The norm before the head scales all logits.
TEST(ConsistencyLossTest, DivergenceHasItsCoefficient) {
  const Tokens tokens = RandomBatch(2);
  const auto model = SharpModel(ThorConfig(1), 2), more = SharpModel(ThorConfig(3), 2);
  const Pass little = PassOf(*model, tokens, 2, {.seed = 1}),
             much = PassOf(*more, tokens, 2, {.seed = 1});
  const Parameter norm =
      *std::ranges::find(model->parameters(), std::string("model.norm.weight"), &Parameter::name);
  const auto divergence = [&](float scale) {
    std::ranges::fill(norm.value, scale);
    return PassOf(*model, tokens, 2, {.seed = 1}).result.divergence_sum;
  };
  const float step = 1.0f / 64;
  const double slope = (divergence(1 + step) - divergence(1 - step)) / (2 * step);
  EXPECT_GT(slope, 0.05);
  double gained = 0;
  const int64_t begin = norm.value.data() - model->values().data();
  for (size_t i = begin; i < begin + norm.value.size(); ++i) {
    gained += double{much.gradient[i]} - little.gradient[i];
  }
  // The coefficients differ by 2, and half of each weighs the gradient of the divergence.
  EXPECT_NEAR(gained, slope, 0.02 * slope);
}

// With all experts both passes are the same one: no divergence, and the gradient of one pass.
TEST(ConsistencyLossTest, EqualPassesHaveNoDivergence) {
  const Tokens tokens = RandomBatch(2);
  const auto once = SharpModel(ThorConfig(0), 2), twice = SharpModel(ThorConfig(2), 2);
  ASSERT_TRUE(once->SetActiveExperts(4).ok());
  ASSERT_TRUE(twice->SetActiveExperts(4).ok());
  const Pass first = PassOf(*once, tokens, 2, {.seed = 1}),
             both = PassOf(*twice, tokens, 2, {.seed = 1});
  EXPECT_NEAR(both.result.divergence_sum, 0, 1e-9);
  EXPECT_NEAR(both.result.loss_sum, first.result.loss_sum, 1e-3);
  EXPECT_LT(MaxDifference(both.gradient, first.gradient), 1e-4);
}

TEST(ConsistencyLossTest, DoesNotDependOnTheCutOfTheBatch) {
  const Tokens both = RandomBatch(2, 3);
  const std::vector<int64_t> instances = {41, 17};
  const auto model = SharpModel(ThorConfig(2), 2);
  const Pass whole = PassOf(*model, both, 2, {.seed = 9, .step = 5, .instances = instances});
  std::vector<float> sum(whole.gradient.size());
  for (int i = 0; i < 2; ++i) {
    const auto part = [&](const std::vector<int32_t>& all) {
      return std::vector<int32_t>(all.begin() + i * kLength, all.begin() + (i + 1) * kLength);
    };
    const Pass one =
        PassOf(*model, {part(both.inputs), part(both.targets)}, 1,
               {.seed = 9, .step = 5, .instances = std::span(instances).subspan(i, 1)});
    for (size_t j = 0; j < sum.size(); ++j) sum[j] += one.gradient[j];
  }
  EXPECT_LT(MaxDifference(sum, whole.gradient), 1e-4);
}

}  // namespace dropout_model_test
}  // namespace braid
