// Models whose tokens choose their experts (TOKEN_CHOICE).
#include <algorithm>
#include <cmath>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "model/config/inference_experts.h"
#include "model/config/model_config.h"
#include "model/upcycling.h"
#include "tests/model/random_model.h"
#include "tests/model/token_choice_batch.h"

namespace braid {
namespace token_choice_model_test {

using Token = v1::TokenRouting;

constexpr int64_t kLength = 24;
constexpr int kVocab = 50, kExperts = 4;

// KEY_MEAN has no parameters of its own, so the routed and the dense model share their layout.
TEST(TokenChoiceModelTest, AllExpertsWithWeightsOfOneAreTheDenseModelBitByBit) {
  v1::ModelConfig config = TokenChoiceConfig(Token::KEY_MEAN, Token::ONES);
  config.mutable_routing()->mutable_token()->set_active_experts(kExperts);
  const auto routed = SharpModel(ResolveModelConfig(config).value(), 5);
  const auto dense = LanguageModel::Create(DenseCounterpart(config), 6).value();
  ASSERT_EQ(routed->values().size(), dense->values().size());
  std::ranges::copy(routed->values(), dense->values().begin());
  const TokenBatch tokens = RandomTokenBatch(3);
  EXPECT_EQ(routed->Logits(tokens.inputs, 3).value(), dense->Logits(tokens.inputs, 3).value());
  EXPECT_EQ(GradientOf(*routed, tokens, 3), GradientOf(*dense, tokens, 3));
}

TEST(TokenChoiceModelTest, SplittingADenseModelKeepsItsFunctionWithAllExperts) {
  const auto dense = SharpModel(SmallModelConfig(1), 7);
  v1::ModelConfig config = TokenChoiceConfig(Token::FROZEN, Token::ONES);
  config.mutable_routing()->mutable_token()->set_active_experts(kExperts);
  const auto split = Upcycle(*dense, config, 3).value();
  const TokenBatch tokens = RandomTokenBatch(2);
  EXPECT_EQ(split->Logits(tokens.inputs, 2).value(), dense->Logits(tokens.inputs, 2).value());
}

TEST(TokenChoiceModelTest, FrozenGateHasNoGradientAndALearnedOneHas) {
  const TokenBatch tokens = RandomTokenBatch(2);
  for (const Token::Gate gate : {Token::FROZEN, Token::LINEAR}) {
    const auto model = SharpModel(TokenChoiceConfig(gate, Token::SOFTMAX_OF_CHOSEN), 2);
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
  const auto model = SharpModel(TokenChoiceConfig(Token::FROZEN, Token::SOFTMAX_OF_CHOSEN), 2);
  const TokenBatch tokens = RandomTokenBatch(2);
  size_t reported = 0, trained = 0;
  ASSERT_TRUE(model
                  ->ForwardBackward(tokens.inputs, tokens.targets, 2, 1, false,
                                    [&](Shard part) { reported += part.size(); })
                  .ok());
  for (const Parameter& p : model->parameters()) trained += p.trained ? p.value.size() : 0;
  EXPECT_EQ(reported, trained);
}

TEST(TokenChoiceModelTest, RandomGateChangesWithTheStepAndNotWithTheBatch) {
  const auto model = SharpModel(TokenChoiceConfig(Token::RANDOM, Token::EQUAL), 2);
  const TokenBatch both = RandomTokenBatch(2, 3);
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
  v1::ModelConfig config = TokenChoiceConfig(Token::LINEAR, Token::SOFTMAX_OF_CHOSEN);
  const auto plain = SharpModel(config, 2);
  config.mutable_routing()->mutable_token()->set_gate_noise_std(1);
  const auto noisy = SharpModel(config, 2);
  const TokenBatch tokens = RandomTokenBatch(2);
  EXPECT_EQ(noisy->Logits(tokens.inputs, 2).value(), plain->Logits(tokens.inputs, 2).value());
  const std::vector<float> first = GradientOf(*noisy, tokens, 2, {.seed = 1, .step = 1});
  EXPECT_GT(MaxDifference(first, GradientOf(*plain, tokens, 2)), 1e-3);
  EXPECT_GT(MaxDifference(first, GradientOf(*noisy, tokens, 2, {.seed = 1, .step = 2})), 1e-3);
  EXPECT_EQ(first, GradientOf(*noisy, tokens, 2, {.seed = 1, .step = 1}));
}

// In layer 0, whose input has no noise, only the noise changes the scores.
TEST(TokenChoiceModelTest, GateNoiseHasItsStandardDeviation) {
  constexpr int64_t kBatch = 20;
  const TokenBatch tokens = RandomTokenBatch(kBatch);
  v1::ModelConfig config = TokenChoiceConfig(Token::LINEAR, Token::SOFTMAX_OF_CHOSEN);
  const auto probabilities = [&] {
    return SharpModel(config, 2)
        ->ForwardBackward(tokens.inputs, tokens.targets, kBatch, 1, true)
        ->routing[0]
        .weights;
  };
  const std::vector<float> plain = probabilities();
  config.mutable_routing()->mutable_token()->set_gate_noise_std(0.5);
  const std::vector<float> noisy = probabilities();
  ASSERT_EQ(plain.size(), static_cast<size_t>(kBatch * kLength * kExperts));
  double squares = 0;  // sum of the squared noise less its mean over the experts of a token
  for (size_t i = 0; i < plain.size(); i += kExperts) {
    double sum = 0;
    for (size_t e = i; e < i + kExperts; ++e) {
      const double noise = std::log(double{noisy[e]} / plain[e]);
      sum += noise;
      squares += noise * noise;
    }
    squares -= sum * sum / kExperts;
  }
  EXPECT_NEAR(squares / (kBatch * kLength * (kExperts - 1)), 0.25, 0.05);
}

TEST(TokenChoiceModelTest, RandomGateUsesAllExpertsOutsideTrainingAndRefusesFewer) {
  const auto model = SharpModel(TokenChoiceConfig(Token::RANDOM, Token::EQUAL), 2);
  const TokenBatch tokens = RandomTokenBatch(1);
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
      SharpModel(TokenChoiceConfig(Token::LINEAR, Token::SOFTMAX_OF_CHOSEN, /*balance=*/0.5), 4);
  const TokenBatch tokens = RandomTokenBatch(2);
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
        SharpModel(TokenChoiceConfig(Token::LINEAR, Token::SOFTMAX_OF_CHOSEN, coefficient), 4);
    return GradientOf(*model, RandomTokenBatch(2), 2);  // scaled by 0.5
  };
  // The difference of two coefficients is the gradient of the balance loss alone.
  const std::vector<float> little = gradient(1), more = gradient(3);
  const auto model = SharpModel(TokenChoiceConfig(Token::LINEAR, Token::SOFTMAX_OF_CHOSEN, 1), 4);
  const TokenBatch tokens = RandomTokenBatch(2);
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
  const auto model = SharpModel(TokenChoiceConfig(Token::LINEAR, Token::SOFTMAX_OF_CHOSEN, 2), 4);
  const auto without = SharpModel(TokenChoiceConfig(Token::LINEAR, Token::SOFTMAX_OF_CHOSEN, 0), 4);
  const TokenBatch all = RandomTokenBatch(4);
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
      const TokenBatch some = {part(all.inputs), part(all.targets)};
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
  const auto model = SharpModel(TokenChoiceConfig(Token::FROZEN, Token::SOFTMAX_OF_CHOSEN), 8);
  const TokenBatch tokens = RandomTokenBatch(1);
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
  const auto model = SharpModel(TokenChoiceConfig(Token::LINEAR, Token::SOFTMAX_OF_CHOSEN), 8);
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
  const auto model = SharpModel(TokenChoiceConfig(Token::LINEAR, Token::SOFTMAX_OF_CHOSEN), 8);
  model->values()[0] = std::nanf("");
  const TokenBatch tokens = RandomTokenBatch(1);
  std::vector<int32_t> inputs(tokens.inputs);
  inputs[0] = 0;  // the token whose embedding is not a number
  EXPECT_FALSE(model->Logits(inputs, 1).ok());
  // In training the loss shows it, and the trainer names the step and its instances.
  const auto result = model->ForwardBackward(inputs, tokens.targets, 1, 1, false);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_TRUE(std::isnan(result->loss_sum));
}

}  // namespace token_choice_model_test
}  // namespace braid
