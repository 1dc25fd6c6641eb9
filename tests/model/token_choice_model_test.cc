// Models whose tokens choose their experts (TOKEN_CHOICE).
#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <span>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "model/config/inference_experts.h"
#include "model/config/model_config.h"
#include "model/config/parameter_layout.h"
#include "model/unit_activations.h"
#include "model/upcycling.h"
#include "tests/model/random_model.h"

namespace braid {
namespace token_choice_model_test {

using Token = v1::TokenRouting;

constexpr int64_t kLength = 24;
constexpr int kVocab = 50, kExperts = 4;

// Experts of 6 of the 24 hidden units; k 2.
v1::ModelConfig ConfigOf(Token::Gate gate, Token::CombineWeights weights, double balance = 0) {
  v1::ModelConfig config = SmallModelConfig(kExperts, v1::TOKEN_CHOICE);
  Token* token = config.mutable_routing()->mutable_token();
  token->set_gate(gate);
  token->set_combine_weights(weights);
  token->set_balance_loss(balance);
  return ResolveModelConfig(config).value();
}

struct Tokens {
  std::vector<int32_t> inputs, targets;
};

Tokens RandomBatch(int64_t batch, uint32_t seed = 1) {
  std::mt19937 random(seed);
  Tokens tokens{RandomTokens(batch * kLength, kVocab, &random),
                RandomTokens(batch * kLength, kVocab, &random)};
  for (int i = 0; i < 5; ++i) tokens.targets[kLength - 1 - i] = -1;
  return tokens;
}

std::vector<float> GradientOf(LanguageModel& model, const Tokens& tokens, int64_t batch,
                              const BatchIdentity& identity = {}) {
  std::ranges::fill(model.gradients(), 0.0f);
  EXPECT_TRUE(
      model.ForwardBackward(tokens.inputs, tokens.targets, batch, 0.5, false, nullptr, identity)
          .ok());
  return {model.gradients().begin(), model.gradients().end()};
}

// KEY_MEAN has no parameters of its own, so the routed and the dense model share their layout.
TEST(TokenChoiceModelTest, AllExpertsWithWeightsOfOneAreTheDenseModelBitByBit) {
  v1::ModelConfig config = ConfigOf(Token::KEY_MEAN, Token::ONES);
  config.mutable_routing()->mutable_token()->set_active_experts(kExperts);
  const auto routed = SharpModel(ResolveModelConfig(config).value(), 5);
  const auto dense = LanguageModel::Create(DenseCounterpart(config), 6).value();
  ASSERT_EQ(routed->values().size(), dense->values().size());
  std::ranges::copy(routed->values(), dense->values().begin());
  const Tokens tokens = RandomBatch(3);
  EXPECT_EQ(routed->Logits(tokens.inputs, 3).value(), dense->Logits(tokens.inputs, 3).value());
  EXPECT_EQ(GradientOf(*routed, tokens, 3), GradientOf(*dense, tokens, 3));
}

TEST(TokenChoiceModelTest, SplittingADenseModelKeepsItsFunctionWithAllExperts) {
  const auto dense = SharpModel(SmallModelConfig(1), 7);
  v1::ModelConfig config = ConfigOf(Token::FROZEN, Token::ONES);
  config.mutable_routing()->mutable_token()->set_active_experts(kExperts);
  const auto split = Upcycle(*dense, config, 3).value();
  const Tokens tokens = RandomBatch(2);
  EXPECT_EQ(split->Logits(tokens.inputs, 2).value(), dense->Logits(tokens.inputs, 2).value());
}

TEST(TokenChoiceModelTest, FrozenGateHasNoGradientAndALearnedOneHas) {
  const Tokens tokens = RandomBatch(2);
  for (const Token::Gate gate : {Token::FROZEN, Token::LINEAR}) {
    const auto model = SharpModel(ConfigOf(gate, Token::SOFTMAX_OF_CHOSEN), 2);
    GradientOf(*model, tokens, 2);
    int routers = 0;
    for (const Parameter& p : model->parameters()) {
      const bool router = p.name.find("router") != std::string::npos;
      EXPECT_EQ(p.trained, !(router && gate == Token::FROZEN)) << p.name;
      const bool zero = std::ranges::all_of(p.gradient, [](float g) { return g == 0; });
      EXPECT_EQ(zero, !p.trained) << p.name;
      routers += router;
    }
    EXPECT_EQ(routers, 2);
  }
}

TEST(TokenChoiceModelTest, EveryTrainedRangeIsReportedOnce) {
  const auto model = SharpModel(ConfigOf(Token::FROZEN, Token::SOFTMAX_OF_CHOSEN), 2);
  const Tokens tokens = RandomBatch(2);
  size_t reported = 0, trained = 0;
  ASSERT_TRUE(model
                  ->ForwardBackward(tokens.inputs, tokens.targets, 2, 1, false,
                                    [&](Shard part) { reported += part.size(); })
                  .ok());
  for (const Parameter& p : model->parameters()) trained += p.trained ? p.value.size() : 0;
  EXPECT_EQ(reported, trained);
}

TEST(TokenChoiceModelTest, RandomGateChangesWithTheStepAndNotWithTheBatch) {
  const auto model = SharpModel(ConfigOf(Token::RANDOM, Token::EQUAL), 2);
  const Tokens both = RandomBatch(2, 3);
  const std::vector<int64_t> instances = {41, 17};
  const auto gradient = [&](int64_t step) {
    return GradientOf(*model, both, 2, {.seed = 9, .step = step, .instances = instances});
  };
  const std::vector<float> first = gradient(5);
  EXPECT_EQ(gradient(5), first);
  EXPECT_GT(MaxDifference(gradient(6), first), 1e-4);
  std::vector<float> sum(first.size());
  for (int i = 0; i < 2; ++i) {
    const auto part = [&](const std::vector<int32_t>& all) {
      return std::vector<int32_t>(all.begin() + i * kLength, all.begin() + (i + 1) * kLength);
    };
    const std::vector<float> one =
        GradientOf(*model, {part(both.inputs), part(both.targets)}, 1,
                   {.seed = 9, .step = 5, .instances = std::span(instances).subspan(i, 1)});
    for (size_t j = 0; j < sum.size(); ++j) sum[j] += one[j];
  }
  EXPECT_LT(MaxDifference(sum, first), 1e-4);
}

TEST(TokenChoiceModelTest, GateNoiseChangesTrainingAndNotEvaluation) {
  v1::ModelConfig config = ConfigOf(Token::LINEAR, Token::SOFTMAX_OF_CHOSEN);
  const auto plain = SharpModel(config, 2);
  config.mutable_routing()->mutable_token()->set_gate_noise_std(1);
  const auto noisy = SharpModel(config, 2);
  const Tokens tokens = RandomBatch(2);
  EXPECT_EQ(noisy->Logits(tokens.inputs, 2).value(), plain->Logits(tokens.inputs, 2).value());
  const std::vector<float> first = GradientOf(*noisy, tokens, 2, {.seed = 1, .step = 1});
  EXPECT_GT(MaxDifference(first, GradientOf(*plain, tokens, 2)), 1e-3);
  EXPECT_GT(MaxDifference(first, GradientOf(*noisy, tokens, 2, {.seed = 1, .step = 2})), 1e-3);
  EXPECT_EQ(first, GradientOf(*noisy, tokens, 2, {.seed = 1, .step = 1}));
}

TEST(TokenChoiceModelTest, RandomGateUsesAllExpertsOutsideTrainingAndRefusesFewer) {
  const auto model = SharpModel(ConfigOf(Token::RANDOM, Token::EQUAL), 2);
  const Tokens tokens = RandomBatch(1);
  EXPECT_EQ(InferenceExperts(model->config()), kExperts);
  const auto logits = model->Logits(tokens.inputs, 1).value();
  const auto decoded = model->NewDecoder(MergeMode::kPrompt)->Prefill(tokens.inputs).value();
  const auto losses =
      model->Evaluate(tokens.inputs, tokens.targets, 1, MergeMode::kSegment, false)->token_loss;
  EXPECT_EQ(model->NewDecoder(MergeMode::kPrompt, 2)->Prefill(tokens.inputs).status().message(),
            "active_experts: got 2, expected 4: outside training the gate RANDOM is defined only "
            "for all experts or with a routing_seed (--routing-seed)");
  ASSERT_TRUE(model->SetActiveExperts(kExperts).ok());
  EXPECT_EQ(model->Logits(tokens.inputs, 1).value(), logits);
  EXPECT_EQ(model->NewDecoder(MergeMode::kPrompt)->Prefill(tokens.inputs).value(), decoded);
  EXPECT_EQ(
      model->Evaluate(tokens.inputs, tokens.targets, 1, MergeMode::kSegment, false)->token_loss,
      losses);
}

// Recomputes N sum f P per sequence from the reported scores and choices.
TEST(TokenChoiceModelTest, BalanceLossFollowsItsDefinitionPerSequence) {
  const auto model =
      SharpModel(ConfigOf(Token::LINEAR, Token::SOFTMAX_OF_CHOSEN, /*balance=*/0.5), 4);
  const Tokens tokens = RandomBatch(2);
  const TrainResult result =
      model->ForwardBackward(tokens.inputs, tokens.targets, 2, 1, true).value();
  double expected = 0;
  for (const LayerRoutingWeights& layer : result.routing) {
    for (int64_t b = 0; b < 2; ++b) {
      std::vector<double> mean(kExperts), load(kExperts);
      int64_t count = 0;
      for (int64_t t = b * kLength; t < (b + 1) * kLength; ++t) {
        if (tokens.targets[t] < 0) continue;
        ++count;
        for (int e = 0; e < kExperts; ++e) mean[e] += layer.weights[t * kExperts + e];
        for (int j = 0; j < 2; ++j) load[layer.chosen[2 * t + j]] += 0.5;
      }
      for (int e = 0; e < kExperts; ++e) expected += kExperts * mean[e] * load[e] / count;
    }
  }
  EXPECT_NEAR(result.balance_loss_sum, expected, 1e-3);
  EXPECT_GT(result.balance_loss_sum, 2 * 2 * 19);  // above that of even loads
}

TEST(TokenChoiceModelTest, BalanceLossGradientEqualsFiniteDifferences) {
  const auto gradient = [](double coefficient) {
    const auto model =
        SharpModel(ConfigOf(Token::LINEAR, Token::SOFTMAX_OF_CHOSEN, coefficient), 4);
    return GradientOf(*model, RandomBatch(2), 2);  // scaled by 0.5
  };
  // The difference of two coefficients is the gradient of the balance loss alone.
  const std::vector<float> little = gradient(1), more = gradient(3);
  const auto model = SharpModel(ConfigOf(Token::LINEAR, Token::SOFTMAX_OF_CHOSEN, 1), 4);
  const Tokens tokens = RandomBatch(2);
  const auto loss = [&] {
    return model->ForwardBackward(tokens.inputs, tokens.targets, 2, 1, false)->balance_loss_sum;
  };
  const std::span<float> router = std::ranges::find_if(model->parameters(), [](const Parameter& p) {
                                    return p.name == "model.layers.1.mlp.router.weight";
                                  })->value;
  const int64_t offset = router.data() - model->values().data();
  for (size_t i = 0; i < router.size(); i += 7) {
    const float before = router[i], step = 1.0f / 512;
    router[i] = before + step;
    const double above = loss();
    router[i] = before - step;
    const double below = loss();
    router[i] = before;
    EXPECT_NEAR(more[offset + i] - little[offset + i], (above - below) / (2 * step), 2e-2) << i;
  }
}

// It is taken per sequence, so that the cut of a batch into micro-batches changes nothing.
TEST(TokenChoiceModelTest, BalanceLossIsTheSameForAnyMicroBatches) {
  const auto model = SharpModel(ConfigOf(Token::LINEAR, Token::SOFTMAX_OF_CHOSEN, 2), 4);
  const auto without = SharpModel(ConfigOf(Token::LINEAR, Token::SOFTMAX_OF_CHOSEN, 0), 4);
  const Tokens all = RandomBatch(4);
  const std::vector<float> whole = GradientOf(*model, all, 4);
  EXPECT_GT(MaxDifference(whole, GradientOf(*without, all, 4)), 1e-2) << "the loss acts";
  const double sum = model->ForwardBackward(all.inputs, all.targets, 4, 1, false)->balance_loss_sum;
  for (const std::vector<int64_t>& cut : {std::vector<int64_t>{1, 1, 1, 1}, {3, 1}, {2, 2}}) {
    std::vector<float> gradient(whole.size());
    double parts = 0;
    int64_t begin = 0;
    for (const int64_t size : cut) {
      const auto part = [&](const std::vector<int32_t>& tokens) {
        return std::vector<int32_t>(tokens.begin() + begin * kLength,
                                    tokens.begin() + (begin + size) * kLength);
      };
      const Tokens some = {part(all.inputs), part(all.targets)};
      const std::vector<float> one = GradientOf(*model, some, size);
      for (size_t i = 0; i < gradient.size(); ++i) gradient[i] += one[i];
      parts += model->ForwardBackward(some.inputs, some.targets, size, 1, false)->balance_loss_sum;
      begin += size;
    }
    EXPECT_LT(MaxDifference(gradient, whole), 1e-4) << cut.size();
    EXPECT_NEAR(parts, sum, 1e-5 * sum) << cut.size();
  }
}

TEST(TokenChoiceModelTest, DecodersOfDifferentActiveExpertsStepTogether) {
  const auto model = SharpModel(ConfigOf(Token::FROZEN, Token::SOFTMAX_OF_CHOSEN), 8);
  const Tokens tokens = RandomBatch(1);
  std::vector<std::unique_ptr<Decoder>> together, alone;
  for (const int active : {1, 2, 4}) {
    for (auto* decoders : {&together, &alone}) {
      decoders->push_back(model->NewDecoder(MergeMode::kSegment, active));
      ASSERT_TRUE(decoders->back()->Prefill(std::span(tokens.inputs).first(9)).ok());
    }
  }
  std::vector<Decoder*> pointers;
  for (const auto& decoder : together) pointers.push_back(decoder.get());
  const auto logits = model->StepTogether(pointers, std::vector<int32_t>{3, 3, 3}).value();
  for (size_t i = 0; i < alone.size(); ++i) {
    EXPECT_LT(MaxDifference(logits[i], alone[i]->Step(3).value()), 1e-5) << i;
  }
  EXPECT_GT(MaxDifference(logits[0], logits[2]), 1e-3);
  // The default is the model's own number, and the full pass agrees with each.
  for (size_t i = 0; i < alone.size(); ++i) {
    ASSERT_TRUE(model->SetActiveExperts(1 << i).ok());
    std::vector<int32_t> all(tokens.inputs.begin(), tokens.inputs.begin() + 9);
    all.push_back(3);
    std::vector<float> forward = model->Logits(all, 1).value();
    forward.erase(forward.begin(), forward.end() - kVocab);
    EXPECT_LT(MaxDifference(logits[i], forward), 1e-4) << i;
  }
}

TEST(TokenChoiceModelTest, NumberOfActiveExpertsIsChecked) {
  const auto model = SharpModel(ConfigOf(Token::LINEAR, Token::SOFTMAX_OF_CHOSEN), 8);
  for (const int active : {0, 5}) {
    EXPECT_EQ(model->SetActiveExperts(active).message(),
              "active_experts: got " + std::to_string(active) +
                  ", expected 1 to 4, the number of experts of the model");
  }
  EXPECT_EQ(SharpModel(SmallModelConfig(4), 1)->SetActiveExperts(1).message(),
            "active_experts: got 1, but the router is CAUSAL_SEGMENT, expected TOKEN_CHOICE; leave "
            "it unset");
}

TEST(TokenChoiceModelTest, ScoresThatAreNotNumbersAreAnErrorOutsideTraining) {
  const auto model = SharpModel(ConfigOf(Token::LINEAR, Token::SOFTMAX_OF_CHOSEN), 8);
  model->values()[0] = std::nanf("");
  const Tokens tokens = RandomBatch(1);
  std::vector<int32_t> inputs(tokens.inputs);
  inputs[0] = 0;  // the token whose embedding is not a number
  EXPECT_FALSE(model->Logits(inputs, 1).ok());
  // In training the loss shows it, and the trainer names the step and its instances.
  const auto result = model->ForwardBackward(inputs, tokens.targets, 1, 1, false);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_TRUE(std::isnan(result->loss_sum));
}

std::vector<v1::ModelConfig> GateConfigs() {
  std::vector<v1::ModelConfig> configs;
  for (const Token::Gate gate : {Token::HASH, Token::RELU, Token::COSINE}) {
    v1::ModelConfig config = SmallModelConfig(kExperts, v1::TOKEN_CHOICE);
    Token token;
    token.set_gate(gate);
    token.set_expert_d_ff(6);
    *config.mutable_routing()->mutable_token() = token;
    configs.push_back(ResolveModelConfig(config).value());
  }
  return configs;
}

// Returns a model whose gates see inputs less a mean, where they have one.
std::unique_ptr<LanguageModel> GatedModel(const v1::ModelConfig& config) {
  auto model = SharpModel(config, 3);
  std::mt19937 random(6);
  for (Parameter& p : model->parameters()) {
    if (!p.name.ends_with(kInputMean)) continue;
    for (float& value : p.value) value = std::ldexp(static_cast<float>(random()), -32) - 0.5f;
  }
  return model;
}

std::vector<v1::ModelConfig> EveryGate() {
  std::vector<v1::ModelConfig> configs = GateConfigs();
  for (const Token::Gate gate : {Token::LINEAR, Token::FROZEN}) {
    configs.push_back(ConfigOf(gate, Token::SOFTMAX_OF_CHOSEN));
  }
  configs.push_back(ConfigOf(Token::KEY_MEAN, Token::ONES));
  v1::ModelConfig random = ConfigOf(Token::RANDOM, Token::EQUAL);
  random.mutable_routing()->mutable_token()->set_active_experts(kExperts);
  configs.push_back(random);
  EXPECT_EQ(configs.size(), static_cast<size_t>(Token::Gate_MAX));
  v1::ModelConfig centered = ConfigOf(Token::LINEAR, Token::SOFTMAX_OF_CHOSEN);
  centered.mutable_routing()->mutable_token()->set_centered_input(true);
  configs.push_back(ResolveModelConfig(centered).value());
  return configs;
}

// The norm before the FFN gives every token an input of length sqrt(D).
TEST(GateTest, CenteredGatesReportTheSumOfTheInputsThatCount) {
  const v1::ModelConfig config = EveryGate().back();
  const auto model = GatedModel(config);
  const Tokens batch = RandomBatch(2);
  const auto sums = [&](const std::vector<int>& positions) {
    std::vector<int32_t> targets(batch.targets.size(), -1);
    for (const int position : positions) targets[position] = 7;
    return model->ForwardBackward(batch.inputs, targets, 2, 1, false)->input_sums;
  };
  const std::vector<double> one = sums({5}), other = sums({kLength + 9}),
                            both = sums({5, kLength + 9});
  ASSERT_EQ(one.size(), 2 * 16);
  for (int layer = 0; layer < 2; ++layer) {
    double squares = 0;
    for (int i = 16 * layer; i < 16 * (layer + 1); ++i) {
      squares += one[i] * one[i];
      EXPECT_NEAR(both[i], one[i] + other[i], 1e-5);
    }
    EXPECT_NEAR(squares, 16, 2e-2);
  }
  EXPECT_TRUE(SharpModel(ConfigOf(Token::LINEAR, Token::SOFTMAX_OF_CHOSEN), 3)
                  ->ForwardBackward(batch.inputs, batch.targets, 2, 1, false)
                  ->input_sums.empty());
}

TEST(GateTest, CenteringNeedsAGateWithScoresAndOneInputOfALayer) {
  const auto refused = [](auto change) {
    v1::ModelConfig config = ConfigOf(Token::LINEAR, Token::EQUAL);
    config.mutable_routing()->mutable_token()->set_centered_input(true);
    change(&config);
    return std::string(ResolveModelConfig(config).status().message());
  };
  EXPECT_THAT(refused([](auto* config) {
                config->mutable_routing()->mutable_token()->set_gate(Token::HASH);
              }),
              testing::HasSubstr("centered_input: got true, but the gate HASH"));
  EXPECT_THAT(refused([](auto* config) { config->mutable_layer_mixing(); }),
              testing::HasSubstr("centered_input: got true with layer_mixing"));
}

TEST(GateTest, ChangingATokenChangesNoLogitBeforeIt) {
  for (const v1::ModelConfig& config : EveryGate()) {
    const auto model = GatedModel(config);
    std::vector<int32_t> tokens = RandomBatch(1).inputs;
    const std::vector<float> before = model->Logits(tokens, 1).value();
    for (const int64_t at : {5, 17}) {
      std::vector<int32_t> changed = tokens;
      changed[at] = (changed[at] + 1) % kVocab;
      const std::vector<float> after = model->Logits(changed, 1).value();
      for (int64_t i = 0; i < at * kVocab; ++i) ASSERT_NEAR(after[i], before[i], 1e-5);
      EXPECT_GT(MaxDifference(after, before, at * kVocab), 1e-3);
    }
  }
}

TEST(GateTest, DecoderAndContinuationsEqualTheFullPass) {
  for (const v1::ModelConfig& config : EveryGate()) {
    const auto model = GatedModel(config);
    const std::vector<int32_t> tokens = RandomBatch(1).inputs;
    const std::vector<float> full = model->Logits(tokens, 1).value();
    const auto decoder = model->NewDecoder(MergeMode::kSegment);
    std::vector<float> logits = decoder->Prefill(std::span(tokens).first(9)).value();
    const std::vector<int32_t> next(tokens.begin() + 9, tokens.begin() + 12);
    const auto scores =
        decoder->ScoreContinuations(std::vector<std::vector<int32_t>>{next}).value();
    for (int64_t t = 9;; ++t) {
      const std::vector<float> row(full.begin() + (t - 1) * kVocab, full.begin() + t * kVocab);
      ASSERT_LT(MaxDifference(logits, row), 1e-4) << t;
      if (t < 12) {
        double sum = 0;
        for (float logit : row) sum += std::exp(logit);
        EXPECT_NEAR(scores[0][t - 9], row[tokens[t]] - std::log(sum), 1e-4);
      }
      if (t == kLength) break;
      logits = decoder->Step(tokens[t]).value();
    }
  }
}

TEST(GateTest, GradientsEqualFiniteDifferences) {
  for (v1::ModelConfig config : GateConfigs()) {
    const auto model = SharpModel(config, 3);
    model->SetGatePenalty(0.3);
    const Tokens tokens = RandomBatch(2);
    const std::vector<float> gradient = GradientOf(*model, tokens, 2);
    const double layers = 2;
    const auto loss = [&] {
      const TrainResult result =
          model->ForwardBackward(tokens.inputs, tokens.targets, 2, 0, false).value();
      return 0.5 * (result.loss_sum + 0.3 / layers * result.balance_loss_sum);
    };
    for (const Parameter& p : model->parameters()) {
      if (p.name.find("layers.1.mlp.router") == std::string::npos) continue;
      float& value = p.value[p.value.size() / 2];
      const float before = value, step = 1.0f / 512;
      value = before + step;
      const double above = loss();
      value = before - step;
      const double below = loss();
      value = before;
      const double expected = (above - below) / (2 * step);
      EXPECT_NEAR(gradient[&value - model->values().data()], expected,
                  0.03 * (1 + std::abs(expected)))
          << p.name;
    }
  }
}

TEST(GateTest, HashChoosesByTokenIdAlone) {
  const auto model = SharpModel(GateConfigs()[0], 3);
  Tokens tokens = RandomBatch(1);
  tokens.inputs[20] = tokens.inputs[3];
  const TrainResult result =
      model->ForwardBackward(tokens.inputs, tokens.targets, 1, 1, true).value();
  for (const LayerRoutingWeights& layer : result.routing) {
    const auto chosen = [&](int64_t t) {
      return std::vector<int32_t>(layer.chosen.begin() + 2 * t, layer.chosen.begin() + 2 * t + 2);
    };
    EXPECT_EQ(chosen(20), chosen(3));
  }
  EXPECT_NE(result.routing[0].chosen, result.routing[1].chosen);
}

TEST(GateTest, ReluUsesTheExpertsWithPositiveScoresAndRefusesANumber) {
  const auto model = SharpModel(GateConfigs()[1], 3);
  const Tokens tokens = RandomBatch(1);
  const TrainResult result =
      model->ForwardBackward(tokens.inputs, tokens.targets, 1, 1, true).value();
  int64_t used = 0;
  for (const LayerRoutingWeights& layer : result.routing) {
    ASSERT_EQ(layer.chosen.size(), static_cast<size_t>(kLength * kExperts));
    for (int64_t i = 0; i < kLength * kExperts; ++i) {
      const int32_t expert = layer.chosen[i];
      EXPECT_TRUE(expert == -1 || expert == i % kExperts);
      used += expert >= 0 && tokens.targets[i / kExperts] >= 0;
    }
  }
  EXPECT_EQ(result.active_experts_sum, used);
  EXPECT_EQ(model->NewDecoder(MergeMode::kSegment, 3)->Prefill(tokens.inputs).status().code(),
            absl::StatusCode::kOk);
  EXPECT_EQ(CheckActiveExperts(model->config(), "active_experts[0]", 3).message(),
            "active_experts[0]: got 3, but with the gate RELU a token uses every expert with a "
            "positive score; leave it unset");
}

v1::ModelConfig RandomGateConfig() {
  v1::ModelConfig config = SmallModelConfig(4, v1::TOKEN_CHOICE);
  config.mutable_routing()->mutable_token()->set_gate(v1::TokenRouting::RANDOM);
  config.mutable_routing()->mutable_token()->set_combine_weights(v1::TokenRouting::EQUAL);
  config.mutable_routing()->mutable_token()->set_active_experts(2);
  return ResolveModelConfig(config).value();
}

// Returns the experts that an analysis sees in layer 0.
std::vector<int32_t> AnalyzedChoices(LanguageModel& model, std::span<const int32_t> tokens) {
  std::vector<int32_t> chosen;
  EXPECT_TRUE(VisitUnits(model, tokens, 1, std::vector<int>{0}, [&](const UnitActivations& seen) {
                chosen.assign(seen.chosen.begin(), seen.chosen.end());
              }).ok());
  return chosen;
}

// The choices are a function of the seed, the layer and the position: the same in a batch, alone,
// in the decoder, and in branches.
TEST(RoutingSeedTest, ChoosesAlikeEverywhere) {
  const auto model = SharpModel(RandomGateConfig(), 3);
  std::mt19937 random(5);
  const std::vector<int32_t> tokens = RandomTokens(24, 50, &random);
  EXPECT_EQ(AnalyzedChoices(*model, tokens).size(), 24u * 4) << "all experts without a seed";
  const std::vector<float> together = model->Logits(tokens, 1).value();
  ASSERT_TRUE(model->SetRoutingSeed(7).ok());
  const std::vector<float> seven = model->Logits(tokens, 1).value();
  EXPECT_GT(MaxDifference(seven, together), 1e-3);
  std::vector<int32_t> twice = tokens;
  twice.insert(twice.end(), tokens.begin(), tokens.end());
  const auto batch = model->Evaluate(twice, twice, 2, MergeMode::kSegment, true).value();
  for (const LayerRoutingWeights& layer : batch.routing) {
    ASSERT_EQ(layer.chosen.size(), 2u * 24 * 2);
    EXPECT_TRUE(
        std::equal(layer.chosen.begin(), layer.chosen.begin() + 48, layer.chosen.begin() + 48));
  }
  EXPECT_NE(batch.routing[0].chosen, batch.routing[1].chosen);
  EXPECT_EQ(AnalyzedChoices(*model, tokens),
            std::vector(batch.routing[0].chosen.begin(), batch.routing[0].chosen.begin() + 48));
  const auto decoder = model->NewDecoder(MergeMode::kSegment);
  std::vector<float> logits = decoder->Prefill(std::span(tokens).first(9)).value();
  for (size_t i = 9; i <= tokens.size(); ++i) {
    const std::vector<float> row(seven.begin() + (i - 1) * 50, seven.begin() + i * 50);
    EXPECT_LT(MaxDifference(logits, row), 2e-5) << i;
    if (i == tokens.size()) break;
    if (i == 15) {
      const std::vector<std::vector<int32_t>> next = {{tokens[i], tokens[i + 1]}};
      const auto single = decoder->ScoreContinuations(next).value();
      const auto fork = decoder->Fork().value();
      ASSERT_TRUE(fork->Step(tokens[i]).ok());
      EXPECT_NEAR(single[0][1], fork->ScoreContinuations({{{tokens[i + 1]}}}).value()[0][0], 1e-4);
    }
    logits = decoder->Step(tokens[i]).value();
  }
  ASSERT_TRUE(model->SetRoutingSeed(8).ok());
  EXPECT_GT(MaxDifference(model->Logits(tokens, 1).value(), seven), 1e-3);
}

TEST(RoutingSeedTest, IsNeededForFewerExpertsAndRefusedElsewhere) {
  const auto model = SharpModel(RandomGateConfig(), 3);
  const std::vector<int32_t> prompt = {1, 2, 3};
  EXPECT_THAT(
      model->NewDecoder(MergeMode::kSegment, 2)->Prefill(prompt).status().message(),
      testing::HasSubstr("active_experts: got 2, expected 4: outside training the gate RANDOM"));
  EXPECT_TRUE(model->NewDecoder(MergeMode::kSegment, 2, 1)->Prefill(prompt).ok());
  const auto linear = SharpModel(SmallModelConfig(4, v1::TOKEN_CHOICE), 3);
  EXPECT_THAT(linear->SetRoutingSeed(1).message(),
              testing::HasSubstr("routing_seed: got 1, but the gate is LINEAR, expected a model"));
  EXPECT_THAT(SharpModel(SmallModelConfig(1), 3)->SetRoutingSeed(1).message(),
              testing::HasSubstr("routing_seed: got 1, but the router is DENSE"));
}

}  // namespace token_choice_model_test
}  // namespace braid
