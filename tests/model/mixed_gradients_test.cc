// Training of models whose layers mix: gradients through the second passes of every kind of layer.
#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "model/config/finetuning_config.h"
#include "model/config/model_config.h"
#include "model/config/parameter_layout.h"
#include "model/language_model.h"
#include "tests/base/largest_difference.h"
#include "tests/base/status_matchers.h"
#include "tests/model/mixing_config.h"
#include "tests/model/random_model.h"

namespace braid {
namespace mixed_gradients_test {

using Dropout = v1::DropoutConfig;

constexpr int64_t kLength = 24, kPrompt = 4;
constexpr int kVocab = 50, kWidth = 16, kLayers = 3;

struct MixedCase {
  v1::Router router;
  v1::Family family;

  std::string name() const { return v1::Router_Name(router) + " " + v1::Family_Name(family); }
};

std::vector<MixedCase> AllCases() {
  std::vector<MixedCase> all;
  for (const v1::Router router :
       {v1::DENSE, v1::CAUSAL_SEGMENT, v1::PREFIX, v1::EXPERT_CHOICE_SEGMENT,
        v1::EXPERT_CHOICE_TOKEN, v1::TOKEN_CHOICE}) {
    all.push_back({router, v1::LLAMA});
  }
  all.push_back({v1::DENSE, v1::GPT2});
  all.push_back({v1::TOKEN_CHOICE, v1::GPT2});
  return all;
}

// Returns the resolved configuration of a case.
v1::ModelConfig ConfigOf(const MixedCase& c, const std::string& mixing,
                         const v1::ModelConfig& settings = {}) {
  v1::ModelConfig config = AskedMixingConfig(c.router, mixing);
  if (c.family == v1::GPT2) {
    config.set_family(v1::GPT2);
    config.clear_rope_theta();
  }
  config.MergeFrom(settings);
  return ResolveModelConfig(config).value();
}

// Returns the largest difference over the largest expected number.
double RelativeDifference(const std::vector<float>& got, const std::vector<float>& expected) {
  double largest = 0;
  for (const float number : expected) largest = std::max(largest, std::abs(double{number}));
  return LargestDifference(got, expected) / largest;
}

std::vector<float> GradientsOf(LanguageModel& model) {
  return {model.gradients().begin(), model.gradients().end()};
}

// With alpha 0 and fixed other layers the model is one whose layers have changed places.
TEST(MixedGradientsTest, FixedLayersAloneAreThoseLayersForEveryRouter) {
  // Layer kFixed[t] of the mixed model works in the place of layer t of the plain one.
  constexpr int kFixed[kLayers] = {2, 0, 1};
  const auto in_mixed = [&](const std::string& name) {
    for (int t = 0; t < kLayers; ++t) {
      const std::string prefix = LayerPrefix(t);
      if (name.starts_with(prefix)) return LayerPrefix(kFixed[t]) + name.substr(prefix.size());
    }
    return name;
  };
  std::mt19937 random(77);
  const std::vector<int32_t> inputs = RandomTokens(2 * kLength, kVocab, &random);
  const std::vector<int32_t> targets = RandomTokens(2 * kLength, kVocab, &random);
  for (const MixedCase& c : AllCases()) {
    const auto plain = SharpModel(ConfigOf(c, ""), 3);
    const auto mixed = SharpModel(ConfigOf(c, "alpha: 0 gate: FIXED fixed: [2, 0, 1]"), 3);
    std::map<std::string, Parameter> to;
    for (const Parameter& p : mixed->parameters()) to[p.name] = p;
    for (const Parameter& p : plain->parameters()) {
      std::ranges::copy(p.value, to.at(in_mixed(p.name)).value.begin());
    }
    EXPECT_LT(MaxDifference(mixed->Logits(inputs, 2).value(), plain->Logits(inputs, 2).value()),
              1e-4)
        << c.name();
    ASSERT_OK(plain->ForwardBackward(inputs, targets, 2, 1, false).status());
    ASSERT_OK(mixed->ForwardBackward(inputs, targets, 2, 1, false).status());
    std::vector<float> got, expected;
    for (const Parameter& p : plain->parameters()) {
      const std::span<float> gradient = to.at(in_mixed(p.name)).gradient;
      got.insert(got.end(), gradient.begin(), gradient.end());
      expected.insert(expected.end(), p.gradient.begin(), p.gradient.end());
    }
    EXPECT_LT(RelativeDifference(got, expected), 1e-4) << c.name();
  }
}

// Returns a model in which an example of the tokens 3 n + i chooses layer i: the embeddings of
// these tokens have a component of their own, which the gate looks at.
std::unique_ptr<LanguageModel> ModelOfKinds(const v1::ModelConfig& config,
                                            const v1::Finetuning& finetuning = {}) {
  auto model = LanguageModel::Create(config, 3, finetuning).value();
  std::mt19937 random(4);
  for (Parameter& p : model->parameters()) {
    if (p.name == "model.embed_tokens.weight") {
      for (int token = 0; token < kVocab; ++token) p.value[token * kWidth + token % kLayers] += 6;
    } else if (p.name.ends_with("layer_mixing.gate.weight")) {
      std::ranges::fill(p.value, 0.0f);
      for (int layer = 0; layer < kLayers; ++layer) p.value[layer * kWidth + layer] = 0.4f;
    } else if (p.name.ends_with("lora_B.weight")) {
      for (float& value : p.value) value = random() / std::ldexp(1.0f, 32) - 0.5f;
    } else if (p.name.find("router") != std::string::npos) {
      for (float& value : p.value) value *= 10;
    }
  }
  return model;
}

// Compares the loss and the gradients of a batch with the sums of those of its examples. Examples
// of kLength tokens are sequences with instances; shorter ones are packed.
void ExpectSumsOfExamples(const v1::ModelConfig& config, const std::vector<int64_t>& lengths,
                          const v1::Finetuning& finetuning = {}) {
  const auto model = ModelOfKinds(config, finetuning);
  const bool packed = lengths.front() < kLength;
  std::mt19937 random(5);
  std::vector<int32_t> inputs, targets, visible;
  std::vector<int64_t> instances;
  for (size_t i = 0; i < lengths.size(); ++i) {
    if (packed) {
      visible.insert(visible.end(), lengths[i], static_cast<int32_t>(inputs.size() % kLength));
    } else {
      instances.push_back(41 + 7 * static_cast<int64_t>(i));
    }
    for (int64_t t = 0; t < lengths[i]; ++t) {
      inputs.push_back(static_cast<int32_t>(kLayers * (random() % 16) + i % kLayers));
      targets.push_back(t + 1 < kPrompt ? -1 : static_cast<int32_t>(random() % kVocab));
    }
  }
  BatchIdentity identity{.seed = 9, .step = 5, .instances = instances, .first_visible = visible};
  const int64_t batch = std::ssize(inputs) / kLength;
  const TrainResult together =
      model->ForwardBackward(inputs, targets, batch, 1, true, nullptr, identity).value();
  const std::vector<float> got = GradientsOf(*model);
  ASSERT_EQ(together.layer_choices.size(), static_cast<size_t>(kLayers));
  for (const LayerChoiceCounts& choices : together.layer_choices) {
    const int64_t own = choices.counts[choices.layer];
    EXPECT_GT(own, 0) << "some examples need no second pass";
    EXPECT_GT(choices.counts[(choices.layer + 1) % kLayers], 0) << "others do";
  }
  std::ranges::fill(model->gradients(), 0.0f);
  double loss = 0;
  int64_t first = 0;
  identity.first_visible = {};
  for (size_t i = 0; i < lengths.size(); first += lengths[i++]) {
    if (!packed) identity.instances = std::span(instances).subspan(i, 1);
    loss += model
                ->ForwardBackward(std::span(inputs).subspan(first, lengths[i]),
                                  std::span(targets).subspan(first, lengths[i]), 1, 1, false,
                                  nullptr, identity)
                .value()
                .loss_sum;
  }
  EXPECT_NEAR(together.loss_sum, loss, 1e-5 * loss);
  EXPECT_LT(RelativeDifference(got, GradientsOf(*model)), 1e-4);
}

constexpr char kMixing[] = "alpha: 0.3 weight: PROBABILITY";

std::vector<int64_t> WholeSequences() { return std::vector<int64_t>(5, kLength); }

TEST(MixedGradientsTest, SequencesAddUpForEveryRouter) {
  for (const MixedCase& c : AllCases()) {
    SCOPED_TRACE(c.name());
    ExpectSumsOfExamples(ConfigOf(c, kMixing), WholeSequences());
  }
}

TEST(MixedGradientsTest, SequencesWithDropoutAddUp) {
  for (const MixedCase& c : AllCases()) {
    if (c.router != v1::DENSE && c.router != v1::TOKEN_CHOICE) continue;
    for (const auto kind : {Dropout::BERNOULLI, Dropout::CONCRETE}) {
      for (const double consistency : {0.0, 0.5}) {
        SCOPED_TRACE(c.name() + " " + Dropout::Kind_Name(kind) + " " + std::to_string(consistency));
        v1::ModelConfig settings;
        settings.mutable_dropout()->set_kind(kind);
        settings.mutable_dropout()->set_rate(0.3);
        settings.set_consistency_loss(consistency);
        ExpectSumsOfExamples(ConfigOf(c, kMixing, settings), WholeSequences());
      }
    }
  }
}

TEST(MixedGradientsTest, SequencesWithDropoutOfAdaptersAddUp) {
  for (const MixedCase& c : AllCases()) {
    SCOPED_TRACE(c.name());
    const v1::ModelConfig config = ConfigOf(c, kMixing);
    v1::Finetuning finetuning;
    v1::LoraConfig* const lora = finetuning.mutable_lora();
    lora->set_rank(3);
    lora->set_alpha(3);
    lora->set_dropout(0.2);
    for (const char* target : {"q", "v", "o"}) lora->add_targets(target);
    if (c.router == v1::DENSE) {
      for (const char* target : {"up", "down"}) lora->add_targets(target);
    }
    ExpectSumsOfExamples(config, WholeSequences(), ResolveFinetuning(finetuning, config).value());
  }
}

// Layers with experts take sequences with examples that chose them, and others these examples
// alone.
TEST(MixedGradientsTest, PackedExamplesAddUp) {
  for (const MixedCase& c : AllCases()) {
    if (c.router != v1::DENSE && c.router != v1::TOKEN_CHOICE) continue;
    SCOPED_TRACE(c.name());
    ExpectSumsOfExamples(ConfigOf(c, kMixing), {10, 14, 5, 7, 12, 24});
  }
}

// Layer 2 also applies layer 0. A balance loss of that pass would be added to those of the layers.
TEST(MixedGradientsTest, BalanceLossesAreThoseOfTheOwnPass) {
  std::mt19937 random(6);
  const std::vector<int32_t> inputs = RandomTokens(2 * kLength, kVocab, &random);
  const std::vector<int32_t> targets = RandomTokens(2 * kLength, kVocab, &random);
  struct Pass {
    TrainResult result;
    std::vector<float> gradients;
  };
  const auto pass = [&](const std::string& mixing, double balance) {
    v1::ModelConfig config = AskedMixingConfig(v1::TOKEN_CHOICE, mixing);
    config.mutable_routing()->mutable_token()->set_balance_loss(balance);
    const auto model = SharpModel(ResolveModelConfig(config).value(), 3);
    Pass done{model->ForwardBackward(inputs, targets, 2, 1, false).value(), {}};
    done.gradients = GradientsOf(*model);
    return done;
  };
  // Returns the gradients of the balance loss alone.
  const auto of_balance = [](const Pass& with, const Pass& without) {
    std::vector<float> gradients = with.gradients;
    for (size_t i = 0; i < gradients.size(); ++i) gradients[i] -= without.gradients[i];
    return gradients;
  };
  const std::string mixing = "alpha: 0.5 gate: FIXED layers: [0, 2] fixed: [0, 0]";
  const Pass plain = pass("", 1), mixed = pass(mixing, 1);
  EXPECT_GT(std::abs(mixed.result.loss_sum - plain.result.loss_sum), 1e-2);
  EXPECT_NEAR(mixed.result.balance_loss_sum, plain.result.balance_loss_sum, 1e-3);
  const std::vector<float> expected = of_balance(plain, pass("", 0));
  EXPECT_GT(*std::ranges::max_element(expected), 0.05);
  EXPECT_LT(MaxDifference(of_balance(mixed, pass(mixing, 0)), expected), 1e-3);
}

}  // namespace mixed_gradients_test
}  // namespace braid
