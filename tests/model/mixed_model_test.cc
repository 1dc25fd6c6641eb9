// Models whose layers mix: what stays the same, what depends on what, and decoding.
#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "model/config/model_config.h"
#include "model/language_model.h"
#include "tests/base/status_matchers.h"
#include "tests/model/mixing_config.h"
#include "tests/model/random_model.h"

namespace braid {
namespace mixed_model_test {

constexpr int64_t kLength = 24, kVocab = 50, kPrompt = 9;

// Returns a model whose gates prefer different layers for different tokens.
std::unique_ptr<LanguageModel> Model(const v1::ModelConfig& config) {
  auto model = SharpModel(config, 3);
  std::mt19937 random(8);
  for (Parameter& p : model->parameters()) {
    if (p.name.find("layer_mixing.gate.weight") == std::string::npos) continue;
    for (float& value : p.value) value = 8 * (std::ldexp(random(), -32) - 0.5);
  }
  return model;
}

std::map<std::string, Parameter> ByName(LanguageModel& model) {
  std::map<std::string, Parameter> parameters;
  for (const Parameter& p : model.parameters()) parameters[p.name] = p;
  return parameters;
}

// Returns the targets of one sequence whose first `prompt` tokens are given.
std::vector<int32_t> TargetsAfter(const std::vector<int32_t>& tokens, int64_t prompt) {
  std::vector<int32_t> targets(tokens.size(), -1);
  for (size_t p = prompt - 1; p + 1 < tokens.size(); ++p) targets[p] = tokens[p + 1];
  return targets;
}

double NatsOf(const std::vector<float>& logits, int32_t token) {
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - logits[token]);
  return std::log(sum);
}

class MixedModelTest : public testing::Test {
 protected:
  std::vector<int32_t> Tokens(size_t count = kLength) {
    return RandomTokens(count, kVocab, &random_);
  }
  // Returns the losses of tokens after a prompt.
  std::vector<float> Losses(LanguageModel& model, const std::vector<int32_t>& tokens,
                            int64_t prompt = kPrompt) {
    return model.Evaluate(tokens, TargetsAfter(tokens, prompt), 1, MergeMode::kSegment, false)
        .value()
        .token_loss;
  }
  // Compares the nats of tokens after a prompt.
  void ExpectDecodingEqualsTheFullPass(LanguageModel& model) {
    const std::vector<int32_t> tokens = Tokens();
    const std::vector<float> losses = Losses(model, tokens);
    const auto decoder = model.NewDecoder(MergeMode::kSegment);
    std::vector<float> logits = decoder->Prefill(std::span(tokens).first(kPrompt)).value();
    for (size_t p = kPrompt; p < tokens.size(); ++p) {
      EXPECT_NEAR(NatsOf(logits, tokens[p]), losses[p - 1], 1e-4) << p;
      logits = decoder->Step(tokens[p]).value();
    }
  }
  std::mt19937 random_{77};
};

TEST_F(MixedModelTest, OwnLayersAndAlphaOfOneChangeNoBit) {
  const std::vector<int32_t> inputs = Tokens(2 * kLength), targets = Tokens(2 * kLength);
  for (const v1::Router router : {v1::DENSE, v1::TOKEN_CHOICE, v1::CAUSAL_SEGMENT}) {
    const auto plain = Model(MixingConfig(router, ""));
    const auto from = ByName(*plain);
    const std::vector<float> expected = plain->Logits(inputs, 2).value();
    ASSERT_OK(plain->ForwardBackward(inputs, targets, 2, 1, false).status());
    for (const char* mixing :
         {"gate: OWN_LAYER", "alpha: 1", "gate: FIXED fixed: [0, 1, 2] learn_alpha: true"}) {
      const auto mixed = Model(MixingConfig(router, mixing));
      for (const auto& [name, p] : ByName(*mixed)) {
        if (from.contains(name)) std::ranges::copy(from.at(name).value, p.value.begin());
      }
      EXPECT_EQ(mixed->Logits(inputs, 2).value(), expected) << mixing;
      ASSERT_OK(mixed->ForwardBackward(inputs, targets, 2, 1, false).status());
      for (const auto& [name, p] : ByName(*mixed)) {
        if (!from.contains(name)) continue;
        EXPECT_TRUE(std::ranges::equal(p.gradient, from.at(name).gradient)) << mixing << name;
      }
      EXPECT_EQ(mixed->NewDecoder(MergeMode::kSegment)->Prefill(Tokens(7)).value().size(), kVocab);
    }
  }
}

TEST_F(MixedModelTest, AnswersChangeNoBitBeforeThem) {
  for (const char* mixing : {"alpha: 0.5", "alpha: 0.5 weight: PROBABILITY num_chosen: 2",
                             "alpha: 0.5 decision: TOKEN", "alpha: 0.5 gate: FROZEN"}) {
    const auto model = Model(MixingConfig(v1::DENSE, mixing));
    const std::vector<int32_t> tokens = Tokens();
    const std::vector<float> losses = Losses(*model, tokens);
    for (size_t changed = kPrompt; changed < tokens.size(); ++changed) {
      std::vector<int32_t> others = tokens;
      others[changed] = (others[changed] + 1) % kVocab;
      const std::vector<float> now = Losses(*model, others);
      for (size_t p = 0; p + 1 < changed; ++p) EXPECT_EQ(now[p], losses[p]) << mixing << changed;
    }
  }
}

// Only examples that chose a layer pass through it.
TEST_F(MixedModelTest, PackedExamplesAreDecidedOneByOne) {
  for (const auto& [mixing, answer] :  // tokens of each answer, at most
       std::map<std::string, int64_t>{{"alpha: 0.2 weight: PROBABILITY", kLength},
                                      {"alpha: 0.1 weight: PROBABILITY", 2},
                                      {"alpha: 0.2 num_chosen: 2", kLength},
                                      {"alpha: 0.1 num_chosen: 2", 2}}) {
    const v1::ModelConfig config = MixingConfig(v1::DENSE, mixing);
    const auto packed = Model(config), single = Model(config);
    std::vector<int32_t> inputs, targets, visible;
    std::vector<float> alone;
    for (const int64_t length : {10, 14, 5, 7, 12, 24}) {
      const int64_t prompt = std::max<int64_t>(3, length - answer);
      const std::vector<int32_t> tokens = Tokens(length), own = TargetsAfter(tokens, prompt);
      visible.insert(visible.end(), length, static_cast<int32_t>(inputs.size() % kLength));
      inputs.insert(inputs.end(), tokens.begin(), tokens.end());
      targets.insert(targets.end(), own.begin(), own.end());
      const std::vector<float> losses = Losses(*single, tokens, prompt);
      alone.insert(alone.end(), losses.begin(), losses.end());
      ASSERT_OK(single->ForwardBackward(tokens, own, 1, 1, false).status());
    }
    const int64_t batch = std::ssize(inputs) / kLength;
    const std::vector<float> together =
        packed->Evaluate(inputs, targets, batch, MergeMode::kSegment, false, visible)->token_loss;
    EXPECT_LT(MaxDifference(together, alone), 1e-4);
    BatchIdentity identity;
    identity.first_visible = visible;
    ASSERT_OK(
        packed->ForwardBackward(inputs, targets, batch, 1, false, nullptr, identity).status());
    for (size_t i = 0; i < packed->gradients().size(); ++i) {
      const double expected = single->gradients()[i];
      ASSERT_NEAR(packed->gradients()[i], expected, 1e-3 + 1e-3 * std::abs(expected)) << i;
    }
  }
}

TEST_F(MixedModelTest, OnlyBatchDecisionsDependOnBatchMates) {
  const std::vector<int32_t> own = Tokens(), targets = TargetsAfter(own, kPrompt);
  for (const auto& [mixing, depends] :
       std::map<std::string, bool>{{"alpha: 0.2", false},
                                   {"alpha: 0.2 decision: TOKEN", false},
                                   {"alpha: 0.2 decision: BATCH_MODE", true},
                                   {"alpha: 0.2 decision: BATCH_MEAN", true}}) {
    const auto model = Model(MixingConfig(v1::DENSE, mixing));
    double least = 1e9, most = 0;
    for (int trial = 0; trial < 12; ++trial) {
      // The mates have no targets, so the loss is that of the sequence.
      std::vector<int32_t> inputs = own, asked = targets;
      for (const int32_t token : Tokens(3 * kLength)) inputs.push_back(token % (trial + 1));
      asked.resize(inputs.size(), -1);
      const double loss = model->ForwardBackward(inputs, asked, 4, 1, false).value().loss_sum;
      least = std::min(least, loss), most = std::max(most, loss);
    }
    EXPECT_EQ(most - least > 1e-3, depends) << mixing << " " << most - least;
  }
}

TEST_F(MixedModelTest, RandomLayersDependOnSeedStepAndInstanceOnly) {
  const auto model = Model(MixingConfig(v1::DENSE, "alpha: 0 gate: RANDOM"));
  const std::vector<int32_t> tokens = Tokens(), targets = TargetsAfter(tokens, kPrompt);
  const auto loss = [&](uint64_t seed, int64_t step, int64_t instance) {
    const std::vector<int64_t> instances = {instance};
    return model
        ->ForwardBackward(tokens, targets, 1, 1, false, nullptr,
                          {.seed = seed, .step = step, .instances = instances, .first_visible = {}})
        .value()
        .loss_sum;
  };
  EXPECT_EQ(loss(1, 2, 3), loss(1, 2, 3));
  int differ = 0;
  for (int i = 0; i < 8; ++i) {
    differ += (loss(1, 2, 3) != loss(1, 2, 4 + i)) + (loss(1, 2, 3) != loss(1, 3 + i, 3)) +
              (loss(1, 2, 3) != loss(2 + i, 2, 3));
  }
  EXPECT_GT(differ, 12);
}

constexpr const char* kDecoded[] = {"alpha: 0.3",
                                    "alpha: 0.3 weight: PROBABILITY num_chosen: 2",
                                    "alpha: 0.3 decision: TOKEN",
                                    "alpha: 0.3 decision: TOKEN num_chosen: 2 layers: [0, 2]",
                                    "alpha: 0.3 gate: RANDOM",
                                    "alpha: 0.3 gate: FIXED fixed: [1, 1, 0]"};

TEST_F(MixedModelTest, DecodingEqualsTheFullPass) {
  for (const v1::Router router :
       {v1::DENSE, v1::TOKEN_CHOICE, v1::CAUSAL_SEGMENT, v1::EXPERT_CHOICE_TOKEN}) {
    for (const std::string mixing : kDecoded) {
      const bool by_token = mixing.find("TOKEN") != std::string::npos;
      if (by_token && RoutesOnOtherTokens(MixingConfig(router, "").routing())) continue;
      SCOPED_TRACE(v1::Router_Name(router) + " " + mixing);
      ExpectDecodingEqualsTheFullPass(*Model(MixingConfig(router, mixing)));
    }
  }
}

TEST_F(MixedModelTest, DecodingOfGpt2EqualsTheFullPassToo) {
  for (const v1::Router router : {v1::DENSE, v1::TOKEN_CHOICE}) {
    for (const std::string mixing : kDecoded) {
      v1::ModelConfig config = AskedMixingConfig(router, mixing);
      config.set_family(v1::GPT2);
      config.clear_rope_theta();
      SCOPED_TRACE(v1::Router_Name(router) + " " + mixing);
      ExpectDecodingEqualsTheFullPass(*Model(ResolveModelConfig(config).value()));
    }
  }
}

// A fork and its origin continue with different tokens, each as if it were alone.
TEST_F(MixedModelTest, ForksContinueOnTheirOwn) {
  for (const std::string mixing : kDecoded) {
    const auto model = Model(MixingConfig(v1::DENSE, mixing));
    const std::vector<int32_t> tokens = Tokens(), other = Tokens();
    const auto prompt = std::span(tokens).first(kPrompt + 2);
    const auto origin = model->NewDecoder(MergeMode::kSegment);
    const auto alone = model->NewDecoder(MergeMode::kSegment);
    for (const auto& decoder : {origin.get(), alone.get()}) {
      ASSERT_OK(decoder->Prefill(prompt.first(kPrompt)).status());
      for (const int32_t token : prompt.subspan(kPrompt)) ASSERT_OK(decoder->Step(token).status());
    }
    const auto fork = origin->Fork().value();
    for (size_t i = 0; i < 5; ++i) ASSERT_OK(origin->Step(other[i]).status());
    for (size_t p = kPrompt + 2; p < tokens.size(); ++p) {
      EXPECT_EQ(fork->Step(tokens[p]).value(), alone->Step(tokens[p]).value()) << mixing << p;
    }
  }
}

TEST_F(MixedModelTest, SteppingTogetherAndContinuationsEqualSteppingAlone) {
  for (const char* mixing : kDecoded) {
    const auto model = Model(MixingConfig(v1::DENSE, mixing));
    std::vector<std::vector<int32_t>> sequences;
    std::vector<std::unique_ptr<Decoder>> decoders;
    std::vector<Decoder*> pointers;
    for (int i = 0; i < 4; ++i) {
      sequences.push_back(Tokens());
      decoders.push_back(model->NewDecoder(MergeMode::kSegment));
      pointers.push_back(decoders.back().get());
      ASSERT_OK(decoders[i]->Prefill(std::span(sequences[i]).first(kPrompt - i)).status());
      const std::vector<float> losses = Losses(*model, sequences[i], kPrompt - i);
      const std::vector<std::vector<int32_t>> continuations = {
          {sequences[i].begin() + kPrompt - i, sequences[i].end()}, {3}, Tokens(4)};
      const auto scores = decoders[i]->ScoreContinuations(continuations).value();
      for (size_t t = 0; t < scores[0].size(); ++t) {
        EXPECT_NEAR(-scores[0][t], losses[kPrompt - i - 1 + t], 1e-4) << mixing << t;
      }
    }
    for (int step = 0; step < 6; ++step) {
      std::vector<int32_t> next;
      for (int i = 0; i < 4; ++i) next.push_back(sequences[i][kPrompt - i + step]);
      const auto logits = model->StepTogether(pointers, next).value();
      for (int i = 0; i < 4; ++i) {
        const size_t place = kPrompt - i + step;
        EXPECT_NEAR(NatsOf(logits[i], sequences[i][place + 1]),
                    Losses(*model, sequences[i], kPrompt - i)[place], 1e-4)
            << mixing;
      }
    }
  }
}

// Each decoder draws the experts of layers that are mixed in later by its own seed, also when the
// first of those that stepped together has ended.
TEST_F(MixedModelTest, DecodersThatStepTogetherKeepTheirOwnSeeds) {
  v1::ModelConfig asked = AskedMixingConfig(v1::TOKEN_CHOICE, "alpha: 0.3 decision: TOKEN");
  ASSERT_TRUE(google::protobuf::TextFormat::MergeFromString(
      "token { gate: RANDOM combine_weights: EQUAL active_experts: 1 }", asked.mutable_routing()));
  const auto model = Model(ResolveModelConfig(asked).value());
  const std::vector<int32_t> tokens = Tokens();
  const auto start = [&](uint64_t seed) {
    auto decoder = model->NewDecoder(MergeMode::kSegment, 1, seed);
    decoder->Prefill(std::span(tokens).first(1)).value();
    return decoder;
  };
  auto first = start(5);
  const auto second = start(9), alone = start(9);
  for (size_t p = 1; p < tokens.size(); ++p) {
    const std::vector<int32_t> next(first == nullptr ? 1 : 2, tokens[p]);
    std::vector<Decoder*> decoders = {second.get()};
    if (first != nullptr) decoders.insert(decoders.begin(), first.get());
    const auto logits = model->StepTogether(decoders, next).value();
    EXPECT_LT(MaxDifference(logits.back(), alone->Step(tokens[p]).value()), 1e-4) << p;
    if (p == 10) first.reset();
  }
}

TEST_F(MixedModelTest, PrefixesAreReusedUnlessThePromptDecides) {
  for (const auto& [mixing, reused] : std::map<std::string, int64_t>{
           {"alpha: 0.3", 0}, {"alpha: 0.3 decision: TOKEN", 5}, {"alpha: 1", 5}}) {
    const auto model = Model(MixingConfig(v1::DENSE, mixing));
    const auto decoder = model->NewDecoder(MergeMode::kSegment);
    std::vector<int32_t> prompt = Tokens(8);
    ASSERT_OK(decoder->Prefill(prompt).status());
    for (const int32_t token : Tokens(6)) ASSERT_OK(decoder->Step(token).status());
    for (size_t p = 5; p < prompt.size(); ++p) prompt[p] = (prompt[p] + 7) % kVocab;
    std::vector<float> again = decoder->Prefill(prompt).value();
    EXPECT_EQ(decoder->reused_tokens(), reused) << mixing;
    const auto fresh = model->NewDecoder(MergeMode::kSegment);
    std::vector<float> expected = fresh->Prefill(prompt).value();
    EXPECT_LT(MaxDifference(again, expected), 1e-4) << mixing;
    for (const int32_t token : Tokens(6)) {
      again = decoder->Step(token).value(), expected = fresh->Step(token).value();
      EXPECT_LT(MaxDifference(again, expected), 1e-4) << mixing;
    }
  }
}

TEST_F(MixedModelTest, ThePromptThatDecidedIsReused) {
  const auto model = Model(MixingConfig(v1::DENSE, "alpha: 0.3"));
  const auto decoder = model->NewDecoder(MergeMode::kSegment);
  const std::vector<int32_t> prompt = Tokens(8);
  std::vector<std::vector<float>> logits;
  for (const int64_t reused : {0, 7, 7}) {
    logits.push_back(decoder->Prefill(prompt).value());
    EXPECT_EQ(decoder->reused_tokens(), reused);
    for (const int32_t token : Tokens(6)) ASSERT_OK(decoder->Step(token).status());
  }
  EXPECT_LT(MaxDifference(logits[0], logits[1]), 1e-4);
  EXPECT_EQ(logits[1], logits[2]);
}

TEST_F(MixedModelTest, DocumentsAreDecidedOneByOneInDecodingToo) {
  v1::ModelConfig config = AskedMixingConfig(v1::DENSE, "alpha: 0.2 weight: PROBABILITY");
  config.set_attention_mask(v1::DOCUMENT);
  config.set_document_end(0);
  const auto model = Model(ResolveModelConfig(config).value());
  std::vector<int32_t> tokens = Tokens();
  for (int32_t& token : tokens) token = std::max(token, 1);
  tokens[3] = tokens[12] = tokens[17] = 0;
  const std::vector<float> losses = Losses(*model, tokens);
  const auto decoder = model->NewDecoder(MergeMode::kSegment);
  std::vector<float> logits = decoder->Prefill(std::span(tokens).first(kPrompt)).value();
  const auto scores = decoder->ScoreContinuations(
      std::vector<std::vector<int32_t>>{{tokens.begin() + kPrompt, tokens.end()}});
  for (size_t p = kPrompt; p < tokens.size(); ++p) {
    EXPECT_NEAR(NatsOf(logits, tokens[p]), losses[p - 1], 1e-4) << p;
    EXPECT_NEAR(-scores.value()[0][p - kPrompt], losses[p - 1], 1e-4) << p;
    logits = decoder->Step(tokens[p]).value();
  }
}

TEST_F(MixedModelTest, BatchDecisionsAreRefusedOutsideOfTraining) {
  for (const char* mixing : {"decision: BATCH_MODE", "decision: BATCH_MEAN gate: RANDOM"}) {
    const auto model = Model(MixingConfig(v1::DENSE, mixing));
    const std::vector<int32_t> tokens = Tokens();
    constexpr char kRefused[] = "model.layer_mixing.decision: got BATCH_";
    EXPECT_FAILS(model->Logits(tokens, 1), absl::StatusCode::kInvalidArgument, kRefused);
    EXPECT_FAILS(model->Evaluate(tokens, tokens, 1, MergeMode::kSegment, false),
                 absl::StatusCode::kInvalidArgument, kRefused);
    EXPECT_FAILS(model->NewDecoder(MergeMode::kSegment)->Prefill(tokens),
                 absl::StatusCode::kInvalidArgument, kRefused);
    EXPECT_OK(model->ForwardBackward(tokens, tokens, 1, 1, false).status());
  }
}

}  // namespace mixed_model_test
}  // namespace braid
