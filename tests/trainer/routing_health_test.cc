#include "trainer/routing_health.h"

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "model/adapter_merge.h"
#include "model/config/finetuning_config.h"
#include "model/config/model_config.h"
#include "tests/trainer/parallel/threaded_communicator.h"

namespace braid {
namespace routing_health_test {

constexpr int kExperts = 4;

// Experts in layers 0 and 2 of 3.
v1::ModelConfig Config() {
  v1::ModelConfig config;
  config.set_num_layers(3);
  config.set_d_model(8);
  config.set_d_ff(8);
  config.set_vocab_size(16);
  config.set_sequence_length(8);
  config.mutable_routing()->set_num_experts(kExperts);
  config.mutable_routing()->set_segment_length(4);
  config.mutable_routing()->add_moe_layers(0);
  config.mutable_routing()->add_moe_layers(2);
  return ResolveModelConfig(config).value();
}

std::unique_ptr<LanguageModel> NewModel() { return LanguageModel::Create(Config(), 3).value(); }

// Returns the totals of both layers after one decision each, with all weight on one expert.
std::vector<RoutingTotals> Step(int first_layer_expert, int second_layer_expert) {
  std::vector<RoutingTotals> totals;
  for (int expert : {first_layer_expert, second_layer_expert}) {
    std::vector<float> weights(kExperts);
    weights[expert] = 1;
    totals.emplace_back(kExperts);
    AddDecisions(weights, &totals.back());
  }
  return totals;
}

std::vector<int> Active(const RoutingHealth& health, LanguageModel& model) {
  SingleProcess alone;
  const std::vector<v1::LayerRouting> layers = health.Measure(model, alone).value();
  std::vector<int> active;
  for (const v1::LayerRouting& layer : layers) active.push_back(layer.active_experts());
  return active;
}

TEST(RoutingHealthTest, ExpertsAreActiveForTenSteps) {
  const auto model = NewModel();
  RoutingHealth health;
  health.AddStep(Step(0, 1));
  EXPECT_THAT(Active(health, *model), testing::ElementsAre(1, 1));
  health.AddStep(Step(3, 1));
  EXPECT_THAT(Active(health, *model), testing::ElementsAre(2, 1));
  for (int step = 0; step < 8; ++step) health.AddStep(Step(2, 2));
  EXPECT_THAT(Active(health, *model), testing::ElementsAre(3, 2));
  health.AddStep(Step(2, 2));  // expert 0 was active 11 steps ago
  EXPECT_THAT(Active(health, *model), testing::ElementsAre(2, 2));
  health.AddStep(Step(2, 2));
  EXPECT_THAT(Active(health, *model), testing::ElementsAre(1, 1));
}

TEST(RoutingHealthTest, MeansAreOfTheNewestStepAndLayersAreNamed) {
  const auto model = NewModel();
  SingleProcess alone;
  RoutingHealth health;
  health.AddStep(Step(0, 0));
  health.AddStep(Step(3, 1));
  const std::vector<v1::LayerRouting> layers = health.Measure(*model, alone).value();
  ASSERT_EQ(layers.size(), 2u);
  EXPECT_EQ(layers[0].layer(), 0);
  EXPECT_EQ(layers[1].layer(), 2);
  EXPECT_THAT(layers[0].mean_weights(), testing::ElementsAre(0, 0, 0, 1));
  EXPECT_THAT(layers[1].mean_weights(), testing::ElementsAre(0, 1, 0, 0));
  EXPECT_NEAR(layers[0].effective_experts(), 1, 1e-12);
}

TEST(RoutingHealthTest, IdenticalExpertsOfALayerHaveCosineOne) {
  const auto model = NewModel();
  for (Parameter& parameter : model->parameters()) {
    if (!parameter.name.starts_with("model.layers.2.mlp.experts.")) continue;
    const size_t size = parameter.value.size() / kExperts;
    for (size_t i = size; i < parameter.value.size(); ++i) {
      parameter.value[i] = parameter.value[i % size];
    }
  }
  SingleProcess alone;
  RoutingHealth health;
  health.AddStep(Step(0, 0));
  const std::vector<v1::LayerRouting> layers = health.Measure(*model, alone).value();
  EXPECT_LT(layers[0].expert_cosine(), 0.5);
  EXPECT_NEAR(layers[1].expert_cosine(), 1, 1e-9);
}

// An adapter is part of the weights of its expert, W + s B A, not a further matrix to compare.
TEST(RoutingHealthTest, CosinesAreThoseOfExpertsWithTheirAdapters) {
  v1::Finetuning finetuning;
  finetuning.mutable_lora()->set_rank(2);
  for (const char* target : {"q", "up", "down"}) finetuning.mutable_lora()->add_targets(target);
  finetuning = ResolveFinetuning(finetuning, Config()).value();
  const auto tuned = LanguageModel::Create(Config(), 3, finetuning).value(), plain = NewModel(),
             merged = NewModel();
  SingleProcess alone;
  RoutingHealth health;
  health.AddStep(Step(0, 0));
  const auto cosine = [&](LanguageModel& model) {
    return health.Measure(model, alone).value()[1].expert_cosine();
  };
  EXPECT_EQ(cosine(*tuned), cosine(*plain));  // B begins with zeros
  std::mt19937 random(5);
  std::uniform_real_distribution<float> uniform(0, 1);
  std::map<std::string, std::span<float>> adapters, matrices;
  for (Parameter& p : tuned->parameters()) {
    if (p.name.find(".lora_") == std::string::npos) continue;
    for (float& value : p.value) value = uniform(random);
    adapters[p.name] = p.value;
  }
  for (Parameter& p : merged->parameters()) matrices[p.name] = p.value;
  for (const AdapterSpec& adapter : AdaptersOf(Config(), finetuning)) {
    MergeAdapter(adapter, AdapterScale(finetuning.lora()), adapters.at(adapter.a),
                 adapters.at(adapter.b), matrices.at(adapter.matrix));
  }
  EXPECT_EQ(cosine(*tuned), cosine(*merged));
  EXPECT_GT(cosine(*tuned), cosine(*plain) + 0.1);
}

TEST(RoutingHealthTest, IsEmptyBeforeUpcycling) {
  const auto model = NewModel();
  SingleProcess alone;
  RoutingHealth health;
  EXPECT_TRUE(health.Measure(*model, alone)->empty());
  health.AddStep({});
  EXPECT_TRUE(health.Measure(*model, alone)->empty());
}

// The decisions of all ranks count as one batch, also with more ranks than layers.
TEST(RoutingHealthTest, MeasuresTheDecisionsOfAllRanks) {
  for (int world_size : {2, 3}) {
    std::vector<std::vector<v1::LayerRouting>> results(world_size);
    RunThreadedRanks(world_size, [&](Communicator& ranks) {
      const auto model = NewModel();
      RoutingHealth health;
      health.AddStep(Step(ranks.rank(), 0));
      health.AddStep(Step(3, ranks.rank()));
      auto layers = health.Measure(*model, ranks);
      if (layers.ok()) results[ranks.rank()] = *layers;
      return layers.status();
    });
    const auto model = NewModel();
    SingleProcess alone;
    RoutingHealth whole;
    whole.AddStep(Step(3, 0));
    const v1::LayerRouting expected = whole.Measure(*model, alone).value()[1];
    for (const std::vector<v1::LayerRouting>& layers : results) {
      ASSERT_EQ(layers.size(), 2u);
      EXPECT_EQ(layers[0].active_experts(), world_size + 1);
      EXPECT_EQ(layers[1].active_experts(), world_size);
      EXPECT_NEAR(layers[1].mean_weights(0), 1.0 / world_size, 1e-12);
      EXPECT_EQ(layers[1].expert_cosine(), expected.expert_cosine());
    }
  }
}

}  // namespace routing_health_test
}  // namespace braid
