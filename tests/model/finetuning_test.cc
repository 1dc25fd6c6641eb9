// Models of which a part is trained, with and without adapters, and examples packed into sequences.
#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "model/adapter_merge.h"
#include "model/config/finetuning_config.h"
#include "model/config/model_config.h"
#include "model/language_model.h"
#include "tests/base/status_matchers.h"
#include "tests/model/random_model.h"

namespace braid {
namespace finetuning_test {

constexpr int64_t kLength = 24, kVocab = 50;

v1::Finetuning Lora(const std::vector<std::string>& targets, const v1::ModelConfig& model,
                    int rank = 3) {
  v1::Finetuning finetuning;
  finetuning.mutable_lora()->set_rank(rank);
  finetuning.mutable_lora()->set_alpha(6);
  finetuning.mutable_lora()->mutable_targets()->Assign(targets.begin(), targets.end());
  return ResolveFinetuning(finetuning, model).value();
}

std::vector<std::string> AllTargets() { return {"q", "k", "v", "o", "gate", "up", "down"}; }

// Returns models whose FFNs have experts: merged, and chosen by tokens in all layers and in one.
std::vector<v1::ModelConfig> ExpertConfigs() {
  v1::ModelConfig chosen = SmallModelConfig(4);
  chosen.mutable_routing()->set_router(v1::TOKEN_CHOICE);
  chosen.mutable_routing()->mutable_token()->set_active_experts(2);
  v1::ModelConfig one = chosen;
  one.mutable_routing()->add_moe_layers(1);
  return {SmallModelConfig(4), ResolveModelConfig(chosen).value(), ResolveModelConfig(one).value()};
}

std::map<std::string, Parameter> ByName(LanguageModel& model) {
  std::map<std::string, Parameter> parameters;
  for (const Parameter& p : model.parameters()) parameters[p.name] = p;
  return parameters;
}

// Returns a model with the weights of `base` and, with `sharp`, adapters whose B is random.
std::unique_ptr<LanguageModel> Adapted(LanguageModel& base, const v1::Finetuning& finetuning,
                                       bool sharp = true) {
  auto model = LanguageModel::Create(base.config(), 9, finetuning).value();
  const auto from = ByName(base);
  std::mt19937 random(4);
  for (Parameter& p : model->parameters()) {
    if (const auto found = from.find(p.name); found != from.end()) {
      std::ranges::copy(found->second.value, p.value.begin());
    } else if (sharp && p.name.ends_with("lora_B.weight")) {
      for (float& value : p.value) value = random() / std::ldexp(1.0f, 32) - 0.5f;
    }
  }
  return model;
}

std::unique_ptr<LanguageModel> Merged(LanguageModel& adapted) {
  auto model = LanguageModel::Create(adapted.config(), 0).value();
  const auto from = ByName(adapted), to = ByName(*model);
  for (const auto& [name, p] : to) std::ranges::copy(from.at(name).value, p.value.begin());
  for (const AdapterSpec& spec : AdaptersOf(adapted.config(), adapted.finetuning())) {
    MergeAdapter(spec, AdapterScale(adapted.finetuning().lora()), from.at(spec.a).value,
                 from.at(spec.b).value, to.at(spec.matrix).value);
  }
  return model;
}

class FinetuningTest : public testing::Test {
 protected:
  std::vector<int32_t> Tokens(size_t count = 2 * kLength) {
    return RandomTokens(count, kVocab, &random_);
  }
  std::mt19937 random_{21};
};

TEST_F(FinetuningTest, NewAdaptersChangeNoBit) {
  std::vector<v1::ModelConfig> configs = GroupedModelConfigs(1);
  for (const v1::ModelConfig& config : ExpertConfigs()) configs.push_back(config);
  for (const v1::ModelConfig& config : configs) {
    const auto base = SharpModel(config, 2);
    v1::Finetuning finetuning = Lora({"q", "k", "v", "o"}, config);
    if (UsesExperts(config)) {
      // Dense FFNs with adapters are not fused, which rounds differently.
      finetuning = Lora(AllTargets(), config);
      const std::vector<int> layers = MoeLayers(config);
      finetuning.mutable_lora()->mutable_layers()->Assign(layers.begin(), layers.end());
    }
    const auto model = Adapted(*base, finetuning, /*sharp=*/false);
    const std::vector<int32_t> inputs = Tokens(), targets = Tokens();
    EXPECT_EQ(model->Logits(inputs, 2).value(), base->Logits(inputs, 2).value());
    EXPECT_EQ(model->ForwardBackward(inputs, targets, 2, 1, false)->loss_sum,
              base->ForwardBackward(inputs, targets, 2, 1, false)->loss_sum);
    const auto merged = Merged(*model);
    EXPECT_TRUE(std::ranges::equal(merged->values(), base->values()));
  }
}

TEST_F(FinetuningTest, MergedAdaptersComputeTheSame) {
  std::vector<v1::ModelConfig> configs = GroupedModelConfigs(1);
  configs.push_back(SmallModelConfig(1));
  for (const v1::ModelConfig& config : ExpertConfigs()) configs.push_back(config);
  for (const v1::ModelConfig& config : configs) {
    const auto base = SharpModel(config, 3);
    const auto model = Adapted(*base, Lora(AllTargets(), config));
    const std::vector<int32_t> inputs = Tokens();
    const auto logits = model->Logits(inputs, 2).value();
    EXPECT_LT(MaxDifference(logits, Merged(*model)->Logits(inputs, 2).value()), 2e-4);
    EXPECT_GT(MaxDifference(logits, base->Logits(inputs, 2).value()), 0.1);
  }
}

// With G the gradient of the merged matrix: dA = scale B^T G and dB = scale G A^T.
TEST_F(FinetuningTest, GradientsAreThoseOfTheMergedMatrices) {
  std::vector<v1::ModelConfig> configs = ExpertConfigs();
  configs.insert(configs.end(), {SmallModelConfig(1), GroupedModelConfigs(1)[1]});
  for (const v1::ModelConfig& config : configs) {
    const auto base = SharpModel(config, 5);
    const auto model = Adapted(*base, Lora(AllTargets(), config));
    const auto merged = Merged(*model);
    const std::vector<int32_t> inputs = Tokens(), targets = Tokens();
    ASSERT_OK(model->ForwardBackward(inputs, targets, 2, 0.1, false));
    ASSERT_OK(merged->ForwardBackward(inputs, targets, 2, 0.1, false));
    const auto got = ByName(*model), whole = ByName(*merged);
    const double scale = AdapterScale(model->finetuning().lora());
    for (const AdapterSpec& spec : AdaptersOf(config, model->finetuning())) {
      const Parameter &a = got.at(spec.a), &b = got.at(spec.b);
      const int64_t rank = a.shape.end()[-2];
      for (int64_t e = 0; e < std::max<int64_t>(spec.experts, 1); ++e) {
        const auto g = [&](int64_t row, int64_t column) -> double {
          const bool transposed = spec.matrix.ends_with("weight_t");
          return whole.at(spec.matrix)
              .gradient[e * spec.in * spec.out +
                        (transposed ? column * spec.out + row : row * spec.in + column)];
        };
        const int64_t to_a = e * rank * spec.in, to_b = e * spec.out * rank;
        for (int64_t r = 0; r < rank; ++r) {
          for (int64_t i = 0; i < spec.in; ++i) {
            double sum = 0;
            for (int64_t o = 0; o < spec.out; ++o) sum += b.value[to_b + o * rank + r] * g(o, i);
            ASSERT_NEAR(scale * sum, a.gradient[to_a + r * spec.in + i], 2e-4) << spec.matrix;
          }
          for (int64_t o = 0; o < spec.out; ++o) {
            double sum = 0;
            for (int64_t i = 0; i < spec.in; ++i) sum += g(o, i) * a.value[to_a + r * spec.in + i];
            ASSERT_NEAR(scale * sum, b.gradient[to_b + o * rank + r], 2e-4) << spec.matrix;
          }
        }
      }
    }
  }
}

TEST_F(FinetuningTest, OnlyWhatIsTrainedHasGradients) {
  for (const int experts : {1, 4}) {
    const v1::ModelConfig config = SmallModelConfig(experts);
    const auto base = SharpModel(config, 6);
    const std::vector<int32_t> inputs = Tokens(), targets = Tokens();
    ASSERT_OK(base->ForwardBackward(inputs, targets, 2, 0.1, false));
    for (const char* pattern :
         {"lm_head.weight", "model.layers.1.*", "*norm*", "*mlp*", "*o_proj*", "*"}) {
      v1::Finetuning asked;
      asked.add_train(pattern);
      const auto model = Adapted(*base, ResolveFinetuning(asked, config).value(), /*sharp=*/false);
      std::vector<Shard> reported;
      ASSERT_OK(model->ForwardBackward(inputs, targets, 2, 0.1, false,
                                       [&](Shard part) { reported.push_back(part); }));
      const auto whole = ByName(*base);
      size_t trained = 0;
      for (const Parameter& p : model->parameters()) {
        EXPECT_EQ(p.trained, !p.gradient.empty()) << p.name;
        if (p.gradient.empty()) continue;
        trained += p.gradient.size();
        EXPECT_TRUE(std::ranges::equal(p.gradient, whole.at(p.name).gradient))
            << pattern << ": " << p.name;
      }
      EXPECT_GT(trained, 0u);
      EXPECT_EQ(trained, model->gradients().size());
      EXPECT_EQ(trained, model->trained_values().size());
      size_t complete = 0;
      for (const Shard& part : reported) complete += part.size();
      EXPECT_EQ(complete, trained) << pattern;
    }
  }
}

TEST_F(FinetuningTest, DropoutDependsOnTheInstanceAndTheStep) {
  const v1::ModelConfig config = SmallModelConfig(1);
  const auto base = SharpModel(config, 7);
  v1::Finetuning finetuning = Lora(AllTargets(), config);
  finetuning.mutable_lora()->set_dropout(0.2);
  const auto model = Adapted(*base, finetuning);
  const std::vector<int32_t> inputs = Tokens(), targets = Tokens();
  const auto loss = [&](int64_t step, std::vector<int64_t> instances, size_t first) {
    const size_t size = instances.size() * kLength;
    return model
        ->ForwardBackward(std::span(inputs).subspan(first * kLength, size),
                          std::span(targets).subspan(first * kLength, size),
                          static_cast<int64_t>(instances.size()), 1, false, nullptr,
                          {.seed = 3, .step = step, .instances = instances})
        ->sequence_loss;
  };
  const std::vector<double> both = loss(1, {5, 8}, 0);
  EXPECT_NEAR(both[0], loss(1, {5}, 0)[0], 1e-4);
  EXPECT_NEAR(both[1], loss(1, {8}, 1)[0], 1e-4);
  EXPECT_GT(std::abs(both[1] - loss(1, {9}, 1)[0]), 1e-3);
  EXPECT_GT(std::abs(both[0] - loss(2, {5}, 0)[0]), 1e-3);
  const auto scored = model->Evaluate(inputs, targets, 2, MergeMode::kSegment, false)->token_loss;
  const auto merged =
      Merged(*model)->Evaluate(inputs, targets, 2, MergeMode::kSegment, false)->token_loss;
  EXPECT_LT(MaxDifference(scored, merged), 2e-4) << "no dropout outside of training";
}

// Three examples [0, 9), [9, 14), [14, 22), and padding.
std::vector<int32_t> ThreeExamples() {
  std::vector<int32_t> first(kLength, 0);
  std::fill(first.begin() + 9, first.begin() + 14, 9);
  std::fill(first.begin() + 14, first.begin() + 22, 14);
  std::fill(first.begin() + 22, first.end(), 22);
  return first;
}

// NEFTune's noise follows the instance, wherever it is in a batch, and is off at evaluation.
TEST_F(FinetuningTest, EmbeddingNoiseDependsOnTheInstanceAndTheStep) {
  v1::Finetuning noisy;
  noisy.set_embedding_noise(5);
  const v1::ModelConfig config = SmallModelConfig(1);
  const auto model = LanguageModel::Create(config, 3, noisy).value();
  const auto plain = LanguageModel::Create(config, 3).value();
  const std::vector<int32_t> a = Tokens(kLength), b = Tokens(kLength);
  const auto losses = [&](std::vector<int32_t> first, const std::vector<int32_t>& second,
                          const std::vector<int64_t>& instances, int64_t step) {
    first.insert(first.end(), second.begin(), second.end());
    BatchIdentity identity{.seed = 1, .step = step, .instances = instances};
    return model->ForwardBackward(first, first, 2, 1, false, nullptr, identity)->sequence_loss;
  };
  const std::vector<double> one = losses(a, b, {4, 9}, 2);
  EXPECT_EQ(losses(a, b, {4, 9}, 2), one);
  const std::vector<double> swapped = losses(b, a, {9, 4}, 2);
  EXPECT_NEAR(swapped[0], one[1], 1e-4);
  EXPECT_NEAR(swapped[1], one[0], 1e-4);
  EXPECT_GT(std::abs(losses(a, b, {4, 9}, 3)[0] - one[0]), 1e-3);
  EXPECT_GT(std::abs(losses(a, b, {5, 9}, 2)[0] - one[0]), 1e-3);
  EXPECT_EQ(model->Evaluate(a, a, 1, MergeMode::kSegment, false)->token_loss,
            plain->Evaluate(a, a, 1, MergeMode::kSegment, false)->token_loss);
}

TEST_F(FinetuningTest, PackedExamplesDoNotReachEachOther) {
  const auto model = SharpModel(SmallModelConfig(1), 8);
  const std::vector<int32_t> first = ThreeExamples();
  const std::vector<int32_t> inputs = Tokens(kLength), targets = Tokens(kLength);
  const auto losses = [&](const std::vector<int32_t>& tokens) {
    return model->Evaluate(tokens, targets, 1, MergeMode::kSegment, false, first)->token_loss;
  };
  const std::vector<float> before = losses(inputs);
  for (const auto& [begin, end] : {std::pair(0, 9), {9, 14}, {14, 22}}) {
    std::vector<int32_t> changed = inputs;
    changed[begin] = (changed[begin] + 1) % kVocab;
    const std::vector<float> after = losses(changed);
    for (int t = 0; t < kLength; ++t) {
      const bool inside = t >= begin && t < end;
      EXPECT_TRUE(inside || before[t] == after[t]) << begin << ": " << t;
    }
    EXPECT_NE(before[end - 1], after[end - 1]);
    const std::vector<int32_t> alone(inputs.begin() + begin, inputs.begin() + end);
    const std::vector<int32_t> its_targets(targets.begin() + begin, targets.begin() + end);
    const auto unpacked =
        model->Evaluate(alone, its_targets, 1, MergeMode::kSegment, false)->token_loss;
    for (int t = begin; t < end; ++t) EXPECT_NEAR(before[t], unpacked[t - begin], 2e-5) << t;
  }
}

TEST_F(FinetuningTest, IgnoredExamplesHaveNoGradient) {
  const auto model = SharpModel(SmallModelConfig(1), 9);
  std::vector<int32_t> inputs = RandomTokens(kLength, 20, &random_);
  std::vector<int32_t> targets = RandomTokens(kLength, 20, &random_);
  for (int t = 9; t < 14; ++t) inputs[t] = 20 + t, targets[t] = -1;
  const std::vector<int32_t> first = ThreeExamples();
  BatchIdentity identity;
  identity.first_visible = first;
  ASSERT_OK(model->ForwardBackward(inputs, targets, 1, 1, false, nullptr, identity));
  const std::vector<float> gradients(model->gradients().begin(), model->gradients().end());
  const Parameter embedding = ByName(*model).at("model.embed_tokens.weight");
  for (int t = 9; t < 14; ++t) {
    for (int j = 0; j < 16; ++j) EXPECT_EQ(embedding.gradient[(20 + t) * 16 + j], 0.0f);
  }
  // What an ignored example holds changes no bit of any gradient.
  std::ranges::fill(model->gradients(), 0.0f);
  for (int t = 9; t < 14; ++t) inputs[t] = 49 - t;
  ASSERT_OK(model->ForwardBackward(inputs, targets, 1, 1, false, nullptr, identity));
  EXPECT_TRUE(std::ranges::equal(gradients, model->gradients()));
}

TEST_F(FinetuningTest, FirstVisiblePositionsAreChecked) {
  const auto model = SharpModel(SmallModelConfig(1), 9);
  const std::vector<int32_t> tokens = Tokens(kLength);
  const auto evaluate = [&](const std::vector<int32_t>& first) {
    return model->Evaluate(tokens, tokens, 1, MergeMode::kSegment, false, first).status();
  };
  EXPECT_OK(evaluate(ThreeExamples()));
  std::vector<int32_t> first = ThreeExamples();
  first[4] = 5;
  EXPECT_EQ(evaluate(first).message(), "first_visible[4]: got 5, expected 0 to 4");
  first = ThreeExamples();
  first[11] = 8;
  EXPECT_EQ(evaluate(first).message(), "first_visible[11]: got 8, expected 9 to 11");
  first.pop_back();
  EXPECT_EQ(evaluate(first).message(), "first_visible: got 23, expected as many as inputs, 24");
}

TEST_F(FinetuningTest, BadRatesAndLossesAreNamed) {
  const v1::ModelConfig model = SmallModelConfig(1);
  const auto error = [&](auto change) {
    v1::Finetuning finetuning;
    change(finetuning);
    return ResolveFinetuning(finetuning, model).status();
  };
  const auto rates = [&](const std::vector<std::pair<std::string, double>>& groups) {
    return error([&](v1::Finetuning& finetuning) {
      for (const auto& [pattern, factor] : groups) {
        finetuning.add_learning_rates()->set_pattern(pattern);
        finetuning.mutable_learning_rates()->rbegin()->set_factor(factor);
      }
    });
  };
  const auto invalid = absl::StatusCode::kInvalidArgument;
  EXPECT_OK(rates({{"*norm*", 0}, {"*", 2}}));
  EXPECT_FAILS(rates({{"model.norm.weigth", 1}}), invalid, "finetuning.learning_rates",
               "got model.norm.weigth", "the nearest is model.norm.weight");
  EXPECT_FAILS(rates({{"*", -1}}), invalid, "got factor -1 for *", "at least 0");
  EXPECT_FAILS(rates({{"*", 0}}), invalid, "got factor 0 for all trained parameters");
  EXPECT_FAILS(rates({{"*norm*", 2}, {"*norm*", 3}}), invalid, "got *norm* after patterns");
  EXPECT_FAILS(rates({{"*", 2}, {"model.layers.0.*", 3}}), invalid,
               "got model.layers.0.* after patterns", "before them");
  for (const double bad : {-0.1, 1.0, std::nan("")}) {
    EXPECT_FAILS(error([&](auto& finetuning) { finetuning.set_label_smoothing(bad); }), invalid,
                 "finetuning.label_smoothing", "less than 1");
  }
  for (const double bad : {-1.0, HUGE_VAL}) {
    EXPECT_FAILS(error([&](auto& finetuning) { finetuning.set_embedding_noise(bad); }), invalid,
                 "finetuning.embedding_noise", "at least 0");
  }
}

TEST_F(FinetuningTest, BadSettingsAreNamed) {
  const auto message = [](const v1::Finetuning& asked, const v1::ModelConfig& model) {
    return std::string(ResolveFinetuning(asked, model).status().message());
  };
  const v1::ModelConfig dense = SmallModelConfig(1), experts = SmallModelConfig(4);
  v1::Finetuning asked;
  asked.mutable_lora()->set_rank(0);
  EXPECT_EQ(message(asked, dense), "finetuning.lora.rank: got 0, expected at least 1");
  asked.mutable_lora()->set_rank(17);
  EXPECT_THAT(message(asked, dense), testing::HasSubstr("expected at most 16, the smaller side of "
                                                        "model.layers.0.self_attn.q_proj.weight"));
  asked.mutable_lora()->set_rank(2);
  asked.mutable_lora()->add_targets("value");
  EXPECT_EQ(message(asked, dense),
            "finetuning.lora.targets: got value, expected q, k, v, o, gate, up or down");
  asked.mutable_lora()->set_targets(0, "down_proj");
  EXPECT_OK(ResolveFinetuning(asked, dense));
  EXPECT_OK(ResolveFinetuning(asked, experts));
  asked.mutable_lora()->set_dropout(0.1);
  EXPECT_THAT(message(asked, experts),
              testing::HasSubstr("got 0.1 with target down of layer 0, which has experts"));
  asked.mutable_lora()->clear_dropout();
  v1::ModelConfig dropping = dense;
  dropping.mutable_dropout()->set_rate(0.1);
  EXPECT_THAT(message(asked, dropping), testing::HasSubstr("have no model.dropout"));
  asked.mutable_lora()->add_layers(2);
  EXPECT_EQ(message(asked, dense), "finetuning.lora.layers: got 2, expected -2 to 1");
  asked.mutable_lora()->set_layers(0, -1);
  EXPECT_EQ(ResolveFinetuning(asked, dense)->lora().layers(0), 1);
  asked.mutable_lora()->set_dropout(1);
  EXPECT_EQ(message(asked, dense),
            "finetuning.lora.dropout: got 1, expected at least 0 and less than 1");
  asked.mutable_lora()->set_dropout(0);
  asked.mutable_lora()->set_alpha(-1);
  EXPECT_EQ(message(asked, dense), "finetuning.lora.alpha: got -1, expected a positive number");
  asked.mutable_lora()->set_alpha(1);
  asked.add_train("*down*");
  EXPECT_THAT(message(asked, dense), testing::HasSubstr("which has an adapter"));
  asked.Clear();
  asked.add_train("*head.bias");
  EXPECT_THAT(message(asked, dense), testing::HasSubstr("matches no parameter"));
  asked.set_train(0, "*k_proj*");
  EXPECT_THAT(message(asked, dense), testing::HasSubstr("expected all of them or none"));
}

}  // namespace finetuning_test
}  // namespace braid
