// The gate RANDOM outside training, with a seed.
#include <algorithm>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "model/config/model_config.h"
#include "model/unit_activations.h"
#include "tests/model/random_model.h"

namespace braid {
namespace routing_seed_test {

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
    EXPECT_LT(MaxDifference(logits, row), 5e-5) << i;
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

}  // namespace routing_seed_test
}  // namespace braid
