// The gates by which tokens choose their experts, in whole models.
#include <cmath>
#include <cstdint>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "model/config/inference_experts.h"
#include "model/config/model_config.h"
#include "model/config/parameter_layout.h"
#include "tests/model/random_model.h"
#include "tests/model/token_choice_batch.h"

namespace braid {
namespace token_gates_test {

using Token = v1::TokenRouting;

constexpr int64_t kLength = 24;
constexpr int kVocab = 50, kExperts = 4;

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
    configs.push_back(TokenChoiceConfig(gate, Token::SOFTMAX_OF_CHOSEN));
  }
  configs.push_back(TokenChoiceConfig(Token::KEY_MEAN, Token::ONES));
  v1::ModelConfig random = TokenChoiceConfig(Token::RANDOM, Token::EQUAL);
  random.mutable_routing()->mutable_token()->set_active_experts(kExperts);
  configs.push_back(random);
  EXPECT_EQ(configs.size(), static_cast<size_t>(Token::Gate_MAX));
  v1::ModelConfig centered = TokenChoiceConfig(Token::LINEAR, Token::SOFTMAX_OF_CHOSEN);
  centered.mutable_routing()->mutable_token()->set_centered_input(true);
  configs.push_back(ResolveModelConfig(centered).value());
  return configs;
}

// The norm before the FFN gives every token an input of length sqrt(D).
TEST(GateTest, CenteredGatesReportTheSumOfTheInputsThatCount) {
  const v1::ModelConfig config = EveryGate().back();
  const auto model = GatedModel(config);
  const TokenBatch batch = RandomTokenBatch(2);
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
  EXPECT_TRUE(SharpModel(TokenChoiceConfig(Token::LINEAR, Token::SOFTMAX_OF_CHOSEN), 3)
                  ->ForwardBackward(batch.inputs, batch.targets, 2, 1, false)
                  ->input_sums.empty());
}

TEST(GateTest, CenteringNeedsAGateWithScoresAndOneInputOfALayer) {
  const auto refused = [](auto change) {
    v1::ModelConfig config = TokenChoiceConfig(Token::LINEAR, Token::EQUAL);
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
    std::vector<int32_t> tokens = RandomTokenBatch(1).inputs;
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

// Returns the logits of one position.
std::vector<float> LogitsAt(const std::vector<float>& logits, int64_t position) {
  return {logits.begin() + position * kVocab, logits.begin() + (position + 1) * kVocab};
}

TEST(GateTest, DecoderAndContinuationsEqualTheFullPass) {
  for (const v1::ModelConfig& config : EveryGate()) {
    const auto model = GatedModel(config);
    const std::vector<int32_t> tokens = RandomTokenBatch(1).inputs;
    const std::vector<float> full = model->Logits(tokens, 1).value();
    const auto decoder = model->NewDecoder(MergeMode::kSegment);
    std::vector<float> logits = decoder->Prefill(std::span(tokens).first(9)).value();
    const std::vector<int32_t> next(tokens.begin() + 9, tokens.begin() + 12);
    const auto scores =
        decoder->ScoreContinuations(std::vector<std::vector<int32_t>>{next}).value();
    for (int64_t t = 9;; ++t) {
      const std::vector<float> row = LogitsAt(full, t - 1);
      ASSERT_LT(MaxDifference(logits, row), 1e-4) << t;
      if (t < 12) {
        double sum = 0;
        for (float logit : row) sum += std::exp(logit);
        EXPECT_NEAR(scores[0][t - 9], row[tokens[t]] - std::log(sum), 1e-4);
      }
      if (t == kLength) break;
      logits = decoder->Step(tokens[t]).value();
    }
    // The same decoder, with another sequence that begins as this one does, and a second decoder.
    std::vector<int32_t> other = tokens;
    other[6] = (other[6] + 1) % kVocab;
    const std::vector<float> full_other = model->Logits(other, 1).value();
    logits = decoder->Prefill(std::span(other).first(9)).value();
    EXPECT_EQ(decoder->reused_tokens(), 6);
    EXPECT_LT(MaxDifference(logits, LogitsAt(full_other, 8)), 1e-4);
    const auto second = model->NewDecoder(MergeMode::kSegment);
    ASSERT_TRUE(second->Prefill(std::span(tokens).first(12)).ok());
    Decoder* const both[] = {decoder.get(), second.get()};
    for (int64_t t = 9; t < 12; ++t) {
      const auto rows =
          model->StepTogether(both, std::vector<int32_t>{other[t], tokens[t + 3]}).value();
      EXPECT_LT(MaxDifference(rows[0], LogitsAt(full_other, t)), 1e-4) << t;
      EXPECT_LT(MaxDifference(rows[1], LogitsAt(full, t + 3)), 1e-4) << t;
    }
  }
}

TEST(GateTest, GradientsEqualFiniteDifferences) {
  int compared = 0;
  for (v1::ModelConfig config : GateConfigs()) {
    const auto model = SharpModel(config, 3);
    model->SetGatePenalty(0.3);
    const TokenBatch tokens = RandomTokenBatch(2);
    const std::vector<float> gradient = GradientOf(*model, tokens, 2);
    const double layers = 2;
    const auto loss = [&] {
      const TrainResult result =
          model->ForwardBackward(tokens.inputs, tokens.targets, 2, 0, false).value();
      return 0.5 * (result.loss_sum + 0.3 / layers * result.balance_loss_sum);
    };
    for (const Parameter& p : model->parameters()) {
      if (p.name.find("layers.1.mlp.router") == std::string::npos) continue;
      ++compared;
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
  EXPECT_GE(compared, 2) << "the gate HASH has no weights, the others have";
}

// An arbitrary choice leaves out the last expert, so that only the gate sees its keys.
TEST(GateTest, KeysOfAnotherExpertThatAreNotNumbersReachTheTrainingLoss) {
  const auto model = SharpModel(TokenChoiceConfig(Token::KEY_MEAN, Token::ONES), 3);
  for (const Parameter& p : model->parameters()) {
    if (p.name == "model.layers.1.mlp.experts.gate_proj.weight") p.value.back() = std::nanf("");
  }
  const TokenBatch tokens = RandomTokenBatch(1);
  const auto result = model->ForwardBackward(tokens.inputs, tokens.targets, 1, 1, false);
  EXPECT_TRUE(std::isnan(result.value().loss_sum));
}

TEST(GateTest, HashChoosesByTokenIdAlone) {
  const auto model = SharpModel(GateConfigs()[0], 3);
  TokenBatch tokens = RandomTokenBatch(1);
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
  const TokenBatch tokens = RandomTokenBatch(1);
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
  const int own = model->config().routing().token().active_experts();
  for (const int active : {0, own}) {
    EXPECT_TRUE(model->NewDecoder(MergeMode::kSegment, active)->Prefill(tokens.inputs).ok());
  }
  const std::string refused = absl::StrCat(
      ": got ", own + 1,
      ", but with the gate RELU a token uses every expert with a positive score; leave it unset");
  EXPECT_EQ(
      model->NewDecoder(MergeMode::kSegment, own + 1)->Prefill(tokens.inputs).status().message(),
      "active_experts" + refused);
  EXPECT_EQ(CheckActiveExperts(model->config(), "active_experts[0]", own + 1).message(),
            "active_experts[0]" + refused);
}

TEST(TokenGatesTest, DecodersRefuseANumberOfExpertsWhereTokensChooseNone) {
  for (const auto& [experts, router] : {std::pair{1, v1::DENSE}, {4, v1::CAUSAL_SEGMENT}}) {
    const auto model = SharpModel(SmallModelConfig(experts, router), 3);
    const std::vector<int32_t> prompt = {1, 2, 3};
    EXPECT_TRUE(model->NewDecoder(MergeMode::kPrompt)->Prefill(prompt).ok());
    EXPECT_EQ(model->NewDecoder(MergeMode::kPrompt, 77)->Prefill(prompt).status().message(),
              "active_experts: got 77, but the router is " + v1::Router_Name(router) +
                  ", expected TOKEN_CHOICE; leave it unset");
  }
}

}  // namespace token_gates_test
}  // namespace braid
