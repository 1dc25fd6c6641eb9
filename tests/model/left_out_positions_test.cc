// Positions whose output nothing reads are left out after the attention of the last layer.
#include <cmath>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "model/config/model_config.h"
#include "model/language_model.h"
#include "tests/model/mixing_config.h"
#include "tests/model/random_model.h"

namespace braid {
namespace left_out_positions_test {

// Where few positions have a target, the last layer computes only these.
TEST(LeftOutPositionsTest, ChangeNoLossAndNoGradient) {
  std::vector<v1::ModelConfig> configs = GroupedModelConfigs(1);
  configs.push_back(SmallModelConfig(3, v1::CAUSAL_SEGMENT, {0}));
  configs.push_back(SmallModelConfig(4, v1::TOKEN_CHOICE, {1}));
  // A last layer that mixes, with dense layers and with one of experts.
  const char* const mixing = "alpha: 0.3 decision: TOKEN weight: PROBABILITY";
  configs.push_back(MixingConfig(v1::DENSE, mixing));
  v1::ModelConfig experts = AskedMixingConfig(v1::TOKEN_CHOICE, mixing);
  experts.mutable_routing()->add_moe_layers(0);
  configs.push_back(ResolveModelConfig(experts).value());
  for (const v1::ModelConfig& config : configs) {
    const auto whole = SharpModel(config, 8), parts = SharpModel(config, 8);
    std::mt19937 random(9);
    const std::vector<int32_t> inputs = RandomTokens(3 * 24, 50, &random);
    const std::vector<int32_t> all = RandomTokens(3 * 24, 50, &random);
    const auto losses = whole->Evaluate(inputs, all, 3, MergeMode::kSegment, false)->token_loss;
    ASSERT_TRUE(whole->ForwardBackward(inputs, all, 3, 1, false).ok());
    for (size_t third = 0; third < 3; ++third) {
      std::vector<int32_t> targets = all;
      for (size_t i = 0; i < targets.size(); ++i) {
        if (i % 3 != third) targets[i] = -1;
      }
      const auto some = parts->Evaluate(inputs, targets, 3, MergeMode::kSegment, false)->token_loss;
      for (size_t i = 0; i < some.size(); ++i) {
        EXPECT_NEAR(some[i], targets[i] < 0 ? 0 : losses[i], 1e-4) << i;
      }
      ASSERT_TRUE(parts->ForwardBackward(inputs, targets, 3, 1, false).ok());
    }
    for (size_t i = 0; i < whole->gradients().size(); ++i) {
      const double expected = whole->gradients()[i];
      ASSERT_NEAR(parts->gradients()[i], expected, 1e-3 + 1e-4 * std::abs(expected)) << i;
    }
  }
}

}  // namespace left_out_positions_test
}  // namespace braid
