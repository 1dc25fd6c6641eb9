#include "model/config/layer_mixing_config.h"

#include <map>
#include <memory>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "model/config/finetuning_config.h"
#include "model/config/model_config.h"
#include "model/config/model_flops.h"
#include "model/language_model.h"
#include "tests/base/status_matchers.h"
#include "tests/model/mixing_config.h"

namespace braid {
namespace layer_mixing_config_test {

TEST(LayerMixingConfigTest, CountsTheParametersOfThePaper) {
  const auto added = [](const std::string& mixing) {
    return DescribeModel(MixingConfig(v1::DENSE, mixing)).num_parameters() -
           DescribeModel(MixingConfig(v1::DENSE, "")).num_parameters();
  };
  EXPECT_EQ(added("default"), 3 * 16 + 3);
  EXPECT_EQ(added("own_gates: true learn_alpha: true"), 3 * (3 * 16 + 3) + 1);
  EXPECT_EQ(added("layers: [0, -1] score: COSINE projection_width: 5"), 2 * 5 + 5 * 16 + 1);
  EXPECT_EQ(added("gate: RANDOM"), 0);
}

TEST(LayerMixingConfigTest, FlopsCountTheSecondPasses) {
  const auto forward = [](const std::string& mixing) {
    return FlopsPerToken(MixingConfig(v1::DENSE, mixing)).forward;
  };
  const double head = 2.0 * 16 * 50, layer = (forward("") - head) / 3, gate = 2.0 * 3 * 3 * 16;
  EXPECT_DOUBLE_EQ(forward("gate: OWN_LAYER"), forward(""));
  EXPECT_DOUBLE_EQ(forward("alpha: 1"), forward(""));
  EXPECT_DOUBLE_EQ(forward("gate: FIXED fixed: [0, 0, 1]"), forward("") + 2 * layer);
  EXPECT_DOUBLE_EQ(forward("default"), forward("") + 3 * layer + gate);
  EXPECT_DOUBLE_EQ(forward("decision: TOKEN"), forward("") + 6 * layer + gate);
  EXPECT_DOUBLE_EQ(forward("num_chosen: 3"), forward("") + 6 * layer + gate);
}

TEST(LayerMixingConfigTest, ResolvesToItself) {
  for (const char* mixing : {"default", "gate: FIXED fixed: [2, -3, 1] layers: [2, 0, 1]",
                             "layers: [-1, 0] score: COSINE"}) {
    const v1::ModelConfig once = MixingConfig(v1::DENSE, mixing);
    EXPECT_EQ(ResolveModelConfig(once).value().SerializeAsString(), once.SerializeAsString());
  }
  const v1::ModelConfig sorted =
      MixingConfig(v1::DENSE, "gate: FIXED fixed: [2, -3] layers: [-1, 1]");
  EXPECT_THAT(sorted.layer_mixing().layers(), testing::ElementsAre(1, 2));
  EXPECT_THAT(sorted.layer_mixing().fixed(), testing::ElementsAre(0, 2));
}

TEST(LayerMixingConfigTest, RefusesByFieldWhatDoesNotFit) {
  const std::map<std::string, std::string> refused = {
      {"num_chosen: 4", "num_chosen: got 4, expected 1 to 3"},
      {"num_chosen: 0", "num_chosen: got 0"},
      {"layers: 1", "layers: got 1 layer, expected at least 2"},
      {"layers: [0, 3]", "layers: got 3, expected -3 to 2"},
      {"layers: [2, -1]", "layers: got layer 2 twice"},
      {"gate: FIXED fixed: [0, 1]", "fixed: got 2 layers, expected 3"},
      {"gate: FIXED fixed: [0, 1, 7]", "fixed: got 7"},
      {"fixed: [0, 1, 2]", "fixed: got 3 layers, but the gate is LEARNED"},
      {"gate: FIXED fixed: [0, 1, 2] num_chosen: 2", "num_chosen: got 2, expected 1"},
      {"alpha: 1.5", "alpha: got 1.5, expected 0 to 1"},
      {"alpha: nan", "alpha: got nan"},
      {"gate: RANDOM weight: PROBABILITY", "weight: got PROBABILITY, but the gate RANDOM"},
      {"gate: RANDOM score: COSINE", "score: got COSINE, but the gate RANDOM"},
      {"gate: RANDOM own_gates: true", "own_gates: got true"},
      {"gate: FROZEN balance_loss: 0.1", "balance_loss: got 0.1"},
      {"balance_loss: -1", "balance_loss: got -1"},
      {"gate: OWN_LAYER learn_alpha: true", "learn_alpha: got true"},
      {"projection_width: 3", "projection_width: got 3, but the score is LINEAR"},
      {"score: COSINE projection_width: 0", "projection_width: got 0"},
  };
  for (const auto& [mixing, message] : refused) {
    EXPECT_FAILS(ResolveModelConfig(AskedMixingConfig(v1::DENSE, mixing)),
                 absl::StatusCode::kInvalidArgument, "model.layer_mixing." + message)
        << mixing;
  }
  EXPECT_FAILS(ResolveModelConfig(AskedMixingConfig(v1::CAUSAL_SEGMENT, "decision: TOKEN")),
               absl::StatusCode::kInvalidArgument,
               "decision: got TOKEN, but the router CAUSAL_SEGMENT");
}

// A run that trains adapters keeps the gate among the parameters that it stores.
TEST(LayerMixingConfigTest, GatesArePartOfEveryFinetuning) {
  for (const std::string gate : {"LEARNED", "FROZEN"}) {
    const v1::ModelConfig config = MixingConfig(v1::DENSE, "learn_alpha: true gate: " + gate);
    v1::Finetuning finetuning;
    finetuning.mutable_lora()->set_rank(2);
    finetuning = ResolveFinetuning(finetuning, config).value();
    const auto model = LanguageModel::Create(config, 1, finetuning).value();
    int parameters = 0;
    for (const Parameter& p : model->parameters()) {
      const bool mixing = p.name.find("layer_mixing") != std::string::npos;
      if (!mixing) continue;
      ++parameters;
      EXPECT_FALSE(p.gradient.empty()) << p.name;
      EXPECT_EQ(p.trained, gate == "LEARNED" || p.name.ends_with("alpha")) << p.name;
    }
    EXPECT_GE(parameters, 2) << "the gate and alpha";
  }
}

}  // namespace layer_mixing_config_test
}  // namespace braid
