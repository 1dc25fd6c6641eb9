// Models of the family GPT2 as wholes: settings, decoding, packed examples, adapters, experts.
// transformer_test.cc compares them with their equations.
#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "model/adapter_merge.h"
#include "model/config/activation_memory.h"
#include "model/config/decoder.h"
#include "model/config/finetuning_config.h"
#include "model/config/model_config.h"
#include "model/config/model_flops.h"
#include "model/config/parameter_layout.h"
#include "model/language_model.h"
#include "tests/base/status_matchers.h"
#include "tests/model/random_model.h"

namespace braid {
namespace gpt2_model_test {

using Token = v1::TokenRouting;
using testing::HasSubstr;

constexpr int64_t kLength = 24, kVocab = 50;
constexpr int kExperts = 4;

v1::ModelConfig Gpt2() {
  v1::ModelConfig config;
  config.set_family(v1::GPT2);
  config.set_num_layers(2);
  config.set_d_model(16);
  config.set_num_heads(2);
  config.set_d_ff(24);
  config.set_vocab_size(kVocab);
  config.set_sequence_length(kLength);
  config.mutable_routing()->set_segment_length(8);
  return ResolveModelConfig(config).value();
}

// Experts of 6 of the 24 hidden units, chosen by their keys, as EMoE makes them.
v1::ModelConfig SplitGpt2(int active, Token::Gate gate = Token::KEY_MEAN) {
  v1::ModelConfig config = Gpt2();
  v1::RoutingConfig* const routing = config.mutable_routing();
  routing->set_num_experts(kExperts);
  routing->set_router(v1::TOKEN_CHOICE);
  routing->mutable_token()->set_gate(gate);
  routing->mutable_token()->set_combine_weights(Token::ONES);
  routing->mutable_token()->set_active_experts(active);
  return ResolveModelConfig(config).value();
}

// Returns a model with random biases and norms.
std::unique_ptr<LanguageModel> Model(const v1::ModelConfig& config, uint64_t seed = 3) {
  auto model = SharpModel(config, seed);
  std::mt19937 random(5);
  for (Parameter& p : model->parameters()) {
    if (p.name.find("norm.weight") == std::string::npos) continue;
    for (float& value : p.value) value = 0.5f + random() / std::ldexp(1.0f, 32);
  }
  return model;
}

class Gpt2ModelTest : public testing::Test {
 protected:
  std::vector<int32_t> Tokens(size_t count) { return RandomTokens(count, kVocab, &random_); }

  std::mt19937 random_{17};
};

TEST_F(Gpt2ModelTest, SettingsOfTheFamilyAreFilled) {
  v1::ModelConfig asked;
  asked.set_family(v1::GPT2);
  const v1::ModelConfig config = ResolveModelConfig(asked).value();
  EXPECT_EQ(config.d_ff(), 4 * config.d_model());
  EXPECT_TRUE(config.tie_embeddings());
  EXPECT_TRUE(config.qkv_bias());
  EXPECT_FALSE(config.has_rope_theta());
  EXPECT_EQ(config.norm_epsilon(), 1e-5);
  EXPECT_EQ(ResolveModelConfig(config)->DebugString(), config.DebugString());
  asked.set_family(v1::LLAMA);
  EXPECT_EQ(ResolveModelConfig(asked)->DebugString(), ResolveModelConfig({})->DebugString());
}

TEST_F(Gpt2ModelTest, OtherSettingsAreRefusedByName) {
  const auto error = [](auto change) {
    v1::ModelConfig config = Gpt2();
    change(config);
    return std::string(ResolveModelConfig(config).status().message());
  };
  EXPECT_THAT(error([](auto& c) { c.set_rope_theta(500); }), HasSubstr("model.rope_theta"));
  EXPECT_THAT(error([](auto& c) { c.mutable_rope_scaling()->set_type(v1::LINEAR_ROPE); }),
              HasSubstr("model.rope_scaling"));
  EXPECT_THAT(error([](auto& c) {
                c.clear_qkv_bias();
                c.set_qk_norm(true);
              }),
              HasSubstr("model.qk_norm"));
  EXPECT_THAT(error([](auto& c) { c.set_initialization(v1::WIDTH_SCALED); }),
              HasSubstr("model.initialization"));
  EXPECT_THAT(error([](auto& c) { c.set_num_key_value_heads(1); }),
              HasSubstr("model.num_key_value_heads: got 1, expected 2"));
  EXPECT_THAT(error([](auto& c) { c.set_head_dim(4); }), HasSubstr("model.head_dim: got 4"));
  for (const v1::Router router :
       {v1::CAUSAL_SEGMENT, v1::PREFIX, v1::EXPERT_CHOICE_SEGMENT, v1::EXPERT_CHOICE_TOKEN}) {
    EXPECT_THAT(error([&](auto& c) {
                  c.mutable_routing()->set_num_experts(4);
                  c.mutable_routing()->set_router(router);
                }),
                HasSubstr("model.routing.router: got " + v1::Router_Name(router) +
                          ", expected DENSE or TOKEN_CHOICE"));
  }
}

TEST_F(Gpt2ModelTest, GateAdaptersAreRefused) {
  v1::Finetuning asked;
  asked.mutable_lora()->add_targets("gate");
  EXPECT_THAT(std::string(ResolveFinetuning(asked, Gpt2()).status().message()),
              HasSubstr("finetuning.lora.targets: got gate, but the FFN of GPT2 has none"));
}

// GPT-2 small has 124,439,808 parameters.
TEST_F(Gpt2ModelTest, GptTwoSmallHasItsParametersAndOperations) {
  v1::ModelConfig config;
  config.set_family(v1::GPT2);
  config.set_num_layers(12);
  config.set_d_model(768);
  config.set_num_heads(12);
  config.set_vocab_size(50257);
  config.set_sequence_length(1024);
  config = ResolveModelConfig(config).value();
  EXPECT_EQ(DescribeModel(config).num_parameters(), 124439808);
  const double matrices = 12.0 * 12 * 768 * 768 + 50257.0 * 768, attention = 12.0 * 768 * 1024;
  EXPECT_EQ(FlopsPerToken(config).forward, 2 * (matrices + attention));
}

TEST_F(Gpt2ModelTest, BiasesAndNormsHaveNoWeightDecay) {
  for (const v1::ModelConfig& config : {Gpt2(), SplitGpt2(2)}) {
    const auto model = Model(config);
    for (const Parameter& p : model->parameters()) {
      const bool vector = p.name.ends_with(".bias") || p.name.find("norm.") != p.name.npos;
      EXPECT_EQ(p.decay, !vector) << p.name;
    }
  }
}

TEST_F(Gpt2ModelTest, DecodingEqualsTheFullPass) {
  for (const v1::ModelConfig& config : {Gpt2(), SplitGpt2(2)}) {
    const auto model = Model(config);
    const std::vector<int32_t> tokens = Tokens(kLength);
    const std::vector<float> whole = model->Logits(tokens, 1).value();
    const auto row = [&](size_t t) {
      return std::vector<float>(whole.begin() + static_cast<int64_t>(t) * kVocab,
                                whole.begin() + static_cast<int64_t>(t + 1) * kVocab);
    };
    const auto decoder = model->NewDecoder(MergeMode::kPrompt);
    const std::span<const int32_t> all(tokens);
    EXPECT_LT(MaxDifference(decoder->Prefill(all.first(7)).value(), row(6)), 3e-5);
    for (size_t t = 7; t < kLength; ++t) {
      EXPECT_LT(MaxDifference(decoder->Step(tokens[t]).value(), row(t)), 3e-5) << t;
    }
    EXPECT_FALSE(decoder->Step(0).ok()) << "there are 24 positions";
    // A prompt that shares a prefix.
    EXPECT_LT(MaxDifference(decoder->Prefill(all.first(12)).value(), row(11)), 3e-5);
    EXPECT_LT(MaxDifference(decoder->Step(tokens[12]).value(), row(12)), 3e-5);
  }
}

TEST_F(Gpt2ModelTest, SequencesOfDifferentLengthsStepTogether) {
  const auto model = Model(Gpt2());
  std::vector<std::unique_ptr<Decoder>> together, alone;
  for (const size_t length : {3, 11, 7}) {
    const std::vector<int32_t> prompt = Tokens(length);
    for (auto* decoders : {&together, &alone}) {
      decoders->push_back(model->NewDecoder(MergeMode::kPrompt));
      ASSERT_OK(decoders->back()->Prefill(prompt));
    }
  }
  const std::vector<int32_t> next = Tokens(3);
  std::vector<Decoder*> decoders;
  for (const auto& decoder : together) decoders.push_back(decoder.get());
  const auto logits = model->StepTogether(decoders, next).value();
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_LT(MaxDifference(logits[i], alone[i]->Step(next[i]).value()), 3e-5) << i;
  }
}

TEST_F(Gpt2ModelTest, ScoresOfContinuationsAreThoseOfSteps) {
  v1::ModelConfig masked = Gpt2();
  masked.set_attention_mask(v1::DOCUMENT);
  masked.set_document_end(3);
  for (const v1::ModelConfig& config : {Gpt2(), ResolveModelConfig(masked).value()}) {
    const auto model = Model(config);
    const std::vector<int32_t> prompt = Tokens(9);
    std::vector<std::vector<int32_t>> continuations = {Tokens(1), Tokens(6), Tokens(15)};
    continuations[2][4] = continuations[1][2] = 3;  // a document ends
    const auto decoder = model->NewDecoder(MergeMode::kPrompt);
    ASSERT_OK(decoder->Prefill(prompt));
    const auto scores = decoder->ScoreContinuations(continuations).value();
    for (size_t i = 0; i < continuations.size(); ++i) {
      const auto stepped = model->NewDecoder(MergeMode::kPrompt);
      std::vector<float> logits = stepped->Prefill(prompt).value();
      for (size_t t = 0; t < continuations[i].size(); ++t) {
        if (t > 0) logits = stepped->Step(continuations[i][t - 1]).value();
        double sum = 0;
        for (const float logit : logits) sum += std::exp(static_cast<double>(logit));
        EXPECT_NEAR(scores[i][t], logits[continuations[i][t]] - std::log(sum), 1e-5) << i << t;
      }
    }
  }
}

// Positions restart in every example, so that a packed one is computed as if it were alone.
TEST_F(Gpt2ModelTest, PackedExamplesAreThoseOfSequencesOfTheirOwn) {
  const std::vector<std::pair<int, int>> examples = {{0, 9}, {9, 14}, {14, 24}};
  std::vector<int32_t> first;
  for (const auto& [begin, end] : examples) first.insert(first.end(), end - begin, begin);
  const std::vector<int32_t> inputs = Tokens(kLength), targets = Tokens(kLength);
  for (const v1::ModelConfig& config : {Gpt2(), SplitGpt2(2)}) {
    const auto model = Model(config), single = Model(config);
    const auto packed =
        model->Evaluate(inputs, targets, 1, MergeMode::kSegment, false, first)->token_loss;
    ASSERT_OK(
        model->ForwardBackward(inputs, targets, 1, 1, false, nullptr, {.first_visible = first}));
    for (const auto& [begin, end] : examples) {
      const auto part = [&](const std::vector<int32_t>& all) {
        return std::vector<int32_t>(all.begin() + begin, all.begin() + end);
      };
      const auto alone =
          single->Evaluate(part(inputs), part(targets), 1, MergeMode::kSegment, false)->token_loss;
      for (int t = begin; t < end; ++t) EXPECT_NEAR(packed[t], alone[t - begin], 2e-5) << t;
      ASSERT_OK(single->ForwardBackward(part(inputs), part(targets), 1, 1, false));
    }
    EXPECT_LT(MaxDifference({model->gradients().begin(), model->gradients().end()},
                            {single->gradients().begin(), single->gradients().end()}),
              1e-4);
  }
}

// With the mask DOCUMENT too; without it positions are those of the sequence.
TEST_F(Gpt2ModelTest, PositionsRestartWhereAttentionDoes) {
  v1::ModelConfig masked = Gpt2();
  masked.set_attention_mask(v1::DOCUMENT);
  masked.set_document_end(3);
  const auto model = Model(ResolveModelConfig(masked).value()), open = Model(Gpt2());
  std::vector<int32_t> tokens = Tokens(kLength);
  std::ranges::replace(tokens, 3, 4);
  tokens[9] = 3;
  const std::vector<int32_t> document(tokens.begin() + 10, tokens.end());
  const auto tail = [&](const std::vector<float>& logits) {
    return std::vector<float>(logits.begin() + 10 * kVocab, logits.end());
  };
  const std::vector<float> alone = model->Logits(document, 1).value();
  EXPECT_LT(MaxDifference(tail(model->Logits(tokens, 1).value()), alone), 1e-5);
  EXPECT_GT(MaxDifference(tail(open->Logits(tokens, 1).value()), alone), 1e-2);
  const auto decoder = model->NewDecoder(MergeMode::kPrompt);
  ASSERT_OK(decoder->Prefill(tokens));
  const auto other = model->NewDecoder(MergeMode::kPrompt);
  EXPECT_LT(MaxDifference(decoder->Prefill(std::span(tokens).first(20)).value(),
                          other->Prefill(std::span(document).first(10)).value()),
            1e-5);
}

TEST_F(Gpt2ModelTest, MergedAdaptersComputeTheSameAndHaveTheirGradients) {
  const auto base = Model(Gpt2());
  v1::Finetuning asked;
  for (const char* target : {"q", "k", "v", "o", "up", "down"}) {
    asked.mutable_lora()->add_targets(target);
  }
  asked.mutable_lora()->set_rank(3);
  const v1::Finetuning finetuning = ResolveFinetuning(asked, Gpt2()).value();
  const auto model = LanguageModel::Create(Gpt2(), 9, finetuning).value();
  const auto merged = LanguageModel::Create(Gpt2(), 0).value();
  const auto find = [](LanguageModel& in, const std::string& name) -> Parameter& {
    return *std::ranges::find(in.parameters(), name, &Parameter::name);
  };
  std::mt19937 random(4);
  for (Parameter& p : base->parameters()) {
    std::ranges::copy(p.value, find(*model, p.name).value.begin());
    std::ranges::copy(p.value, find(*merged, p.name).value.begin());
  }
  const double scale = AdapterScale(finetuning.lora());
  for (const AdapterSpec& spec : AdaptersOf(Gpt2(), finetuning)) {
    for (float& value : find(*model, spec.b).value) value = random() / std::ldexp(1.0f, 32) - 0.5f;
    MergeAdapter(spec, scale, find(*model, spec.a).value, find(*model, spec.b).value,
                 find(*merged, spec.matrix).value);
  }
  const std::vector<int32_t> inputs = Tokens(2 * kLength), targets = Tokens(2 * kLength);
  const auto logits = model->Logits(inputs, 2).value();
  EXPECT_LT(MaxDifference(logits, merged->Logits(inputs, 2).value()), 2e-4);
  EXPECT_GT(MaxDifference(logits, base->Logits(inputs, 2).value()), 0.1);
  ASSERT_OK(model->ForwardBackward(inputs, targets, 2, 0.1, false));
  ASSERT_OK(merged->ForwardBackward(inputs, targets, 2, 0.1, false));
  // dA = scale B^T G for the gradient G of the merged matrix.
  for (const AdapterSpec& spec : AdaptersOf(Gpt2(), finetuning)) {
    const Parameter &a = find(*model, spec.a), &b = find(*model, spec.b);
    const std::span<const float> whole = find(*merged, spec.matrix).gradient;
    const bool transposed = spec.matrix.ends_with("weight_t");
    for (int64_t i = 0; i < spec.in; ++i) {
      double sum = 0;
      for (int64_t o = 0; o < spec.out; ++o) {
        sum += b.value[o * 3] * whole[transposed ? i * spec.out + o : o * spec.in + i];
      }
      EXPECT_NEAR(a.gradient[i], scale * sum, 2e-4) << spec.matrix;
    }
  }
}

// With all experts the output bias counts once; KEY_MEAN has no parameters, so both models have the
// same layout.
TEST_F(Gpt2ModelTest, AllExpertsAreTheDenseModel) {
  const auto split = Model(SplitGpt2(kExperts)), dense = Model(Gpt2());
  ASSERT_EQ(split->values().size(), dense->values().size());
  std::ranges::copy(dense->values(), split->values().begin());
  const std::vector<int32_t> inputs = Tokens(2 * kLength), targets = Tokens(2 * kLength);
  EXPECT_LT(MaxDifference(split->Logits(inputs, 2).value(), dense->Logits(inputs, 2).value()),
            1e-5);
  size_t reported = 0;
  ASSERT_OK(split->ForwardBackward(inputs, targets, 2, 0.1, false,
                                   [&](Shard part) { reported += part.size(); }));
  ASSERT_OK(dense->ForwardBackward(inputs, targets, 2, 0.1, false));
  EXPECT_EQ(reported, split->gradients().size());
  EXPECT_LT(MaxDifference({split->gradients().begin(), split->gradients().end()},
                          {dense->gradients().begin(), dense->gradients().end()}),
            1e-5);
  EXPECT_TRUE(split->SetActiveExperts(1).ok());
  EXPECT_GT(MaxDifference(split->Logits(inputs, 2).value(), dense->Logits(inputs, 2).value()),
            1e-2);
}

// Units whose outputs are zero leave the output bias, whichever experts are chosen.
TEST_F(Gpt2ModelTest, TheOutputBiasIsAddedOnceForAnyNumberOfExperts) {
  const std::vector<int32_t> tokens = Tokens(kLength);
  std::vector<std::vector<float>> logits;
  for (const int active : {1, 2, kExperts}) {
    const auto model = Model(SplitGpt2(active));
    for (Parameter& p : model->parameters()) {
      if (p.name.find("down_proj.weight") != p.name.npos) std::ranges::fill(p.value, 0.0f);
    }
    logits.push_back(model->Logits(tokens, 1).value());
  }
  EXPECT_EQ(logits[1], logits[0]);
  EXPECT_EQ(logits[2], logits[0]);
}

TEST_F(Gpt2ModelTest, GatesAndDropoutTrain) {
  const std::vector<int32_t> inputs = Tokens(2 * kLength), targets = Tokens(2 * kLength);
  std::vector<v1::ModelConfig> configs;
  for (const Token::Gate gate : {Token::LINEAR, Token::RANDOM, Token::HASH}) {
    configs.push_back(SplitGpt2(2, gate));
  }
  configs.push_back(Gpt2());
  configs.back().mutable_dropout()->set_rate(0.2);
  configs.push_back(SplitGpt2(2));
  configs.back().mutable_dropout()->set_rate(0.2);
  for (v1::ModelConfig& config : configs) {
    config = ResolveModelConfig(config).value();
    const auto model = Model(config);
    const auto before = model->ForwardBackward(inputs, targets, 2, 0.02, false)->loss_sum;
    for (size_t i = 0; i < model->values().size(); ++i) {
      model->values()[i] -= 0.05f * model->gradients()[i];
    }
    EXPECT_LT(model->ForwardBackward(inputs, targets, 2, 0.02, false)->loss_sum, before)
        << config.ShortDebugString();
  }
}

}  // namespace gpt2_model_test
}  // namespace braid
