// Models in which only some layers have experts.
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "model/config/model_config.h"
#include "model/config/parameter_layout.h"
#include "tests/model/config/preset_config.h"

namespace braid {
namespace moe_layers_test {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

v1::ModelConfig WithLayers(const std::vector<int>& layers) {
  v1::ModelConfig config = PresetConfig("tiny/8E");
  config.mutable_routing()->mutable_moe_layers()->Assign(layers.begin(), layers.end());
  return config;
}

TEST(MoeLayersTest, AllLayersUnlessListed) {
  EXPECT_THAT(MoeLayers(ResolveModelConfig(PresetConfig("tiny/8E")).value()),
              ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(MoeLayers(ResolveModelConfig(PresetConfig("tiny")).value()), ElementsAre());
  const v1::ModelConfig mixed = ResolveModelConfig(WithLayers({1, 3})).value();
  EXPECT_THAT(MoeLayers(mixed), ElementsAre(1, 3));
  EXPECT_FALSE(IsMoeLayer(mixed, 0));
  EXPECT_TRUE(IsMoeLayer(mixed, 3));
}

// Otherwise a checkpoint of one would not belong to a run of the other.
TEST(MoeLayersTest, AListOfEveryLayerResolvesToNone) {
  EXPECT_EQ(ResolveModelConfig(WithLayers({0, 1, 2, 3}))->DebugString(),
            ResolveModelConfig(PresetConfig("tiny/8E"))->DebugString());
}

TEST(MoeLayersTest, BadListsAreErrorsThatNameTheLayer) {
  EXPECT_THAT(ResolveError(WithLayers({0, 4})),
              HasSubstr("model.routing.moe_layers: got 4, expected 0 to 3"));
  EXPECT_THAT(ResolveError(WithLayers({-1})), HasSubstr("got -1, expected 0 to 3"));
  EXPECT_THAT(ResolveError(WithLayers({1, 1})),
              HasSubstr("got 1 after 1, expected ascending layers, each once"));
  EXPECT_THAT(ResolveError(WithLayers({2, 0})), HasSubstr("got 0 after 2"));
  EXPECT_THAT(ResolveError(WithLayers({0, 0, 0, 0})), HasSubstr("got 0 after 0"));
  v1::ModelConfig dense = PresetConfig("tiny");
  dense.mutable_routing()->add_moe_layers(1);
  EXPECT_THAT(ResolveError(dense), AllOf(HasSubstr("model.routing.moe_layers: got 1 layer(s)"),
                                         HasSubstr("the model is DENSE")));
}

TEST(MoeLayersTest, DenseCounterpartHasNone) {
  const v1::ModelConfig dense = DenseCounterpart(ResolveModelConfig(WithLayers({1, 3})).value());
  EXPECT_EQ(ResolveModelConfig(dense)->DebugString(), dense.DebugString());
}

TEST(MoeLayersTest, OtherLayersHaveTheDenseParameters) {
  std::map<std::string, std::vector<int64_t>> shapes;
  for (const ParameterSpec& spec : ParameterLayout(ResolveModelConfig(WithLayers({1})).value())) {
    shapes[spec.name] = spec.shape;
  }
  EXPECT_EQ(shapes.size(), 3u + 4 * 9 + 1);
  EXPECT_TRUE(shapes.contains("model.layers.0.mlp.gate_proj.weight"));
  EXPECT_TRUE(shapes.contains("model.layers.1.mlp.router.weight"));
  EXPECT_TRUE(shapes.contains("model.layers.1.mlp.experts.down_proj.weight_t"));
  EXPECT_FALSE(shapes.contains("model.layers.1.mlp.down_proj.weight_t"));
  EXPECT_FALSE(shapes.contains("model.layers.3.mlp.router.weight"));
}

TEST(MoeLayersTest, OnlyMoeLayersCountExpertParameters) {
  const auto describe = [](const v1::ModelConfig& config) {
    return DescribeModel(ResolveModelConfig(config).value());
  };
  const v1::DescribeModelResponse dense = DescribePreset("tiny"), one = describe(WithLayers({2})),
                                  all = DescribePreset("tiny/8E");
  const int64_t ffn = 3 * 64 * 256;
  EXPECT_EQ(one.num_parameters(), dense.num_parameters() + 7 * ffn + 8 * 64);
  EXPECT_EQ(one.num_active_parameters(), dense.num_parameters());
  EXPECT_EQ(one.flops_per_token(), dense.flops_per_token());
  EXPECT_DOUBLE_EQ(one.merge_flops_per_token(), all.merge_flops_per_token() / 4);
}

}  // namespace moe_layers_test
}  // namespace braid
