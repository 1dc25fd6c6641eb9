#include "model/merged_model.h"

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "model/config/model_config.h"
#include "model/upcycling.h"
#include "tests/model/random_model.h"

namespace braid {
namespace merged_model_test {

using testing::HasSubstr;
using Weights = std::vector<std::vector<double>>;

// One sequence of L 24 and its targets.
struct Text {
  explicit Text(uint32_t seed) : random(seed) {}
  std::mt19937 random;
  std::vector<int32_t> inputs = RandomTokens(24, 50, &random);
  std::vector<int32_t> targets = RandomTokens(24, 50, &random);
};

// Returns the losses, [L] nats.
std::vector<float> Losses(LanguageModel& model, const Text& text) {
  return model.Evaluate(text.inputs, text.targets, 1, MergeMode::kSegment, false)->token_loss;
}

// Returns rows that sum to 1.
Weights RandomWeights(size_t layers, size_t experts, std::mt19937* random) {
  std::uniform_real_distribution<double> uniform;
  Weights weights(layers, std::vector<double>(experts));
  for (std::vector<double>& row : weights) {
    double sum = 0;
    for (double& w : row) sum += w = uniform(*random);
    for (double& w : row) w /= sum;
  }
  return weights;
}

TEST(MergedModelTest, EqualExpertsGiveTheModelsOwnLossWhateverTheWeights) {
  const auto dense = LanguageModel::Create(SmallModelConfig(1), 3).value();
  const auto experts = Upcycle(*dense, SmallModelConfig(4), 3).value();
  Text text(41);
  for (int trial = 0; trial < 3; ++trial) {
    const auto merged = MergeExperts(*experts, RandomWeights(2, 4, &text.random)).value();
    EXPECT_FALSE(UsesExperts(merged->config()));
    EXPECT_LT(MaxDifference(Losses(*merged, text), Losses(*experts, text)), 1e-5);
  }
}

// A router of zeros gives every expert the same weight.
TEST(MergedModelTest, EqualWeightsAreTheRoutingOfARouterOfZeros) {
  const auto model = LanguageModel::Create(SmallModelConfig(4), 5).value();
  const Text text(42);
  const Weights equal(2, std::vector<double>(4, 0.25));
  const std::vector<float> merged = Losses(*MergeExperts(*model, equal).value(), text);
  EXPECT_GT(MaxDifference(merged, Losses(*SharpModel(SmallModelConfig(4), 5), text)), 1e-3);
  for (Parameter& parameter : model->parameters()) {
    if (parameter.name.find("router") != std::string::npos) std::ranges::fill(parameter.value, 0);
  }
  EXPECT_LT(MaxDifference(merged, Losses(*model, text)), 1e-5);
}

// A prefix router makes one decision per sequence, so its weights give the model of that sequence.
TEST(MergedModelTest, WeightsOfAPrefixRouterGiveItsLossOfEveryToken) {
  const auto model = SharpModel(SmallModelConfig(4, v1::PREFIX), 6);
  const Text text(43);
  const ForwardResult own =
      model->Evaluate(text.inputs, text.targets, 1, MergeMode::kSegment, true).value();
  Weights weights;
  for (const LayerRoutingWeights& layer : own.routing) {
    weights.emplace_back(layer.weights.begin(), layer.weights.begin() + 4);
  }
  const auto merged = MergeExperts(*model, weights).value();
  EXPECT_LT(MaxDifference(Losses(*merged, text), own.token_loss), 1e-5);
}

// Computes the sums in double precision, by name, into a dense model.
std::unique_ptr<LanguageModel> MergedByHand(LanguageModel& model, const Weights& weights,
                                            const std::vector<int>& layers) {
  auto dense = LanguageModel::Create(DenseCounterpart(model.config()), 99).value();
  std::map<std::string, std::span<float>> experts;
  for (const Parameter& p : model.parameters()) experts[p.name] = p.value;
  for (Parameter& p : dense->parameters()) {
    if (experts.count(p.name) > 0) std::ranges::copy(experts[p.name], p.value.begin());
  }
  for (Parameter& p : dense->parameters()) {
    for (size_t i = 0; i < layers.size(); ++i) {
      const std::string ffn = "model.layers." + std::to_string(layers[i]) + ".mlp.";
      if (!p.name.starts_with(ffn)) continue;
      const std::span<float> from = experts.at(ffn + "experts." + p.name.substr(ffn.size()));
      for (size_t j = 0; j < p.value.size(); ++j) {
        double sum = 0;
        for (size_t e = 0; e < 4; ++e) sum += weights[i][e] * from[e * p.value.size() + j];
        p.value[j] = static_cast<float>(sum);
      }
    }
  }
  return dense;
}

TEST(MergedModelTest, IsTheDenseModelOfTheWeightedSums) {
  for (const std::vector<int>& moe_layers : {std::vector<int>{}, {0}, {1}}) {
    for (const v1::Router router : {v1::CAUSAL_SEGMENT, v1::PREFIX}) {
      const auto model = SharpModel(SmallModelConfig(4, router, moe_layers), 7);
      const std::vector<int> layers = MoeLayers(model->config());
      Text text(44);
      const Weights weights = RandomWeights(layers.size(), 4, &text.random);
      const auto merged = MergeExperts(*model, weights).value();
      const auto by_hand = MergedByHand(*model, weights, layers);
      ASSERT_EQ(merged->values().size(), by_hand->values().size());
      for (size_t i = 0; i < merged->values().size(); ++i) {
        ASSERT_NEAR(merged->values()[i], by_hand->values()[i], 1e-6) << i;
      }
      EXPECT_LT(MaxDifference(Losses(*merged, text), Losses(*by_hand, text)), 1e-5);
    }
  }
}

TEST(MergedModelTest, LeavesTheModelUnchanged) {
  const auto model = SharpModel(SmallModelConfig(4), 8);
  const std::vector<float> before(model->values().begin(), model->values().end());
  ASSERT_TRUE(MergeExperts(*model, Weights(2, std::vector<double>(4, 0.25))).ok());
  EXPECT_TRUE(std::ranges::equal(model->values(), before));
}

TEST(MergedModelTest, IncompatibleWeightsAndModelsAreErrors) {
  const auto model = LanguageModel::Create(SmallModelConfig(4), 3).value();
  const auto error = [](LanguageModel& of, const Weights& weights) {
    const absl::Status status = MergeExperts(of, weights).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  EXPECT_THAT(error(*model, Weights(1, std::vector<double>(4))),
              HasSubstr("got weights of 1 layers, but 2 have experts"));
  EXPECT_THAT(error(*model, {std::vector<double>(4), std::vector<double>(3)}),
              HasSubstr("layer 1: got 3 weights, expected 4"));
  const auto dense = LanguageModel::Create(SmallModelConfig(1), 3).value();
  EXPECT_THAT(error(*dense, {}), HasSubstr("the router is DENSE"));
  for (const v1::Router router : {v1::EXPERT_CHOICE_SEGMENT, v1::EXPERT_CHOICE_TOKEN}) {
    const auto chosen = LanguageModel::Create(SmallModelConfig(4, router), 3).value();
    EXPECT_THAT(error(*chosen, Weights(2, std::vector<double>(4))), HasSubstr("EXPERT_CHOICE"));
  }
}

TEST(MergedModelTest, MatricesAreAddedByWeight) {
  const std::vector<float> experts = {1, 2, 3, 10, 20, 30}, weights = {0.25f, 0.5f};
  std::vector<float> merged(3, -1);
  MergeMatrices(experts, weights, merged);
  EXPECT_EQ(merged, (std::vector<float>{5.25f, 10.5f, 15.75f}));
}

}  // namespace merged_model_test
}  // namespace braid
