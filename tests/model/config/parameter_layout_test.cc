#include "model/config/parameter_layout.h"

#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "model/config/model_config.h"
#include "tests/model/config/preset_config.h"

namespace braid {
namespace parameter_layout_test {

TEST(ParameterLayoutTest, LeavesNoGapsAndUsesLlamaNames) {
  const v1::ModelConfig config = ResolveModelConfig(PresetConfig("tiny")).value();
  int64_t next = 0;
  std::map<std::string, std::vector<int64_t>> shapes;
  for (const ParameterSpec& spec : ParameterLayout(config)) {
    EXPECT_EQ(spec.offset, next) << spec.name;
    next += spec.size;
    shapes[spec.name] = spec.shape;
  }
  using Shape = std::vector<int64_t>;
  EXPECT_EQ(shapes.size(), 3u + 4 * 9);
  EXPECT_EQ(shapes["model.embed_tokens.weight"], (Shape{2048, 64}));
  EXPECT_EQ(shapes["model.layers.3.self_attn.q_proj.weight"], (Shape{64, 64}));
  EXPECT_EQ(shapes["model.layers.3.mlp.gate_proj.weight"], (Shape{256, 64}));
  EXPECT_EQ(shapes["model.layers.3.mlp.down_proj.weight_t"], (Shape{256, 64}));
  EXPECT_EQ(shapes["model.norm.weight"], (Shape{64}));
  EXPECT_EQ(shapes["lm_head.weight"], (Shape{2048, 64}));
}

TEST(ParameterLayoutTest, InitialDeviationsFollowTheConfiguration) {
  v1::ModelConfig config = PresetConfig("tiny/8E");
  const auto deviations = [&] {
    std::map<std::string, double> result;
    for (const ParameterSpec& spec : ParameterLayout(ResolveModelConfig(config).value())) {
      result[spec.name] = spec.initial_std;
    }
    return result;
  };
  const auto fan_in = deviations();
  EXPECT_DOUBLE_EQ(fan_in.at("model.layers.0.mlp.experts.gate_proj.weight"), 0.125);
  EXPECT_DOUBLE_EQ(fan_in.at("model.layers.0.mlp.experts.down_proj.weight_t"),
                   1 / 16.0 / std::sqrt(8.0));
  EXPECT_DOUBLE_EQ(fan_in.at("model.layers.0.mlp.router.weight"), 0.06);
  EXPECT_EQ(fan_in.at("model.norm.weight"), 0);
  config.set_initialization(v1::NORMAL_002);
  EXPECT_DOUBLE_EQ(deviations().at("model.layers.0.mlp.experts.down_proj.weight_t"), 0.02);
}

// arXiv 2203.03466, table 3, at four times the base width.
TEST(ParameterLayoutTest, WidthScalingFollowsTheTable) {
  const auto layout = [](v1::Initialization initialization) {
    v1::ModelConfig config = PresetConfig("tiny/8E");
    config.set_d_model(256);
    config.set_d_ff(1024);
    config.set_initialization(initialization);
    std::map<std::string, ParameterSpec> specs;
    for (const ParameterSpec& spec : ParameterLayout(ResolveModelConfig(config).value())) {
      specs[spec.name] = spec;
    }
    return specs;
  };
  const auto plain = layout(v1::FAN_IN), scaled = layout(v1::WIDTH_SCALED);
  const std::string layer = "model.layers.0.";
  const struct {
    std::string name;
    double rate, deviation;  // over those of FAN_IN
  } rows[] = {{"model.embed_tokens.weight", 1, 2},
              {layer + "self_attn.q_proj.weight", 0.25, 1},
              {layer + "self_attn.o_proj.weight", 0.25, 1},
              {layer + "mlp.experts.gate_proj.weight", 0.25, 1},
              {layer + "mlp.experts.down_proj.weight_t", 0.25, 1},
              {layer + "mlp.router.weight", 0.25, 0.25},
              {"lm_head.weight", 0.25, 0}};
  for (const auto& [name, rate, deviation] : rows) {
    EXPECT_EQ(scaled.at(name).rate_factor, rate) << name;
    EXPECT_EQ(plain.at(name).rate_factor, 1) << name;
    EXPECT_DOUBLE_EQ(scaled.at(name).initial_std, deviation * plain.at(name).initial_std) << name;
  }
  EXPECT_EQ(scaled.at("lm_head.weight").initial_value, 0);
  EXPECT_EQ(scaled.at("model.norm.weight").rate_factor, 1);
  EXPECT_EQ(scaled.at("model.norm.weight").initial_value, 1);
}

}  // namespace parameter_layout_test
}  // namespace braid
