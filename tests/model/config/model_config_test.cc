#include "model/config/model_config.h"

#include <cstdint>
#include <map>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/model/config/preset_config.h"

namespace braid {
namespace model_config_test {

using testing::AllOf;
using testing::HasSubstr;

// A configuration that an earlier version wrote equals one that states the defaults of new fields.
TEST(ResolveModelConfigTest, StatedDefaultsOfAttentionEqualAbsentFields) {
  const v1::ModelConfig absent = ResolveModelConfig(ConfigFromText("num_heads: 4")).value();
  const v1::ModelConfig stated =
      ResolveModelConfig(
          ConfigFromText("num_heads: 4 num_key_value_heads: 4 head_dim: 16 rope_scaling {} "
                         "start_token: START_WITH_EOS"))
          .value();
  EXPECT_EQ(stated.DebugString(), absent.DebugString());
  EXPECT_FALSE(absent.has_num_key_value_heads());
}

TEST(ResolveModelConfigTest, RefusesImpossibleAttention) {
  const std::map<const char*, const char*> cases = {
      {"num_heads: 4 num_key_value_heads: 3", "got 3, expected a divisor of num_heads 4"},
      {"num_heads: 4 num_key_value_heads: 0", "got 0, expected 1 to 4"},
      {"num_heads: 4 num_key_value_heads: 8", "got 8, expected 1 to 4"},
      {"head_dim: 5", "got 5, expected an even width"},
      {"num_heads: 5", "got 5, expected a divisor of d_model 64, or head_dim set"},
      {"num_heads: 100000 head_dim: 1000", "head_dim: got 1000, expected 2 to"},
      {"rope_scaling { type: LINEAR_ROPE factor: 0 }", "rope_scaling.factor: got 0"},
      {"rope_scaling { type: LLAMA3_ROPE low_frequency_factor: 4 }",
       "expected more than low_frequency_factor 4"},
      {"rope_scaling { type: LLAMA3_ROPE original_length: 0 }", "original_length: got 0"},
      {"rope_scaling { factor: 4 }", "rope_scaling.type: got a factor without a type"},
      {"rope_scaling { type: LINEAR_ROPE original_length: 64 }", "expected LLAMA3_ROPE"},
      {"qk_norm: true qkv_bias: true", "qkv_bias"}};
  for (const auto& [text, problem] : cases) {
    EXPECT_THAT(ResolveError(ConfigFromText(text)), HasSubstr(problem)) << text;
  }
}

TEST(ResolveModelConfigTest, FillsEveryDefault) {
  const v1::ModelConfig config = ResolveModelConfig(v1::ModelConfig()).value();
  EXPECT_EQ(config.num_layers(), 4);
  EXPECT_EQ(config.d_model(), 64);
  EXPECT_EQ(config.num_heads(), 2);
  EXPECT_EQ(config.d_ff(), 256);
  EXPECT_EQ(config.vocab_size(), 32000);
  EXPECT_EQ(config.sequence_length(), 4096);
  EXPECT_EQ(config.rope_theta(), 10000);
  EXPECT_EQ(config.norm_epsilon(), 1e-5);
  EXPECT_EQ(config.initialization(), v1::FAN_IN);
  EXPECT_EQ(config.routing().router(), v1::DENSE);
  EXPECT_EQ(config.routing().num_experts(), 1);
  EXPECT_EQ(config.routing().segment_length(), 256);
  EXPECT_EQ(config.routing().first_segment(), v1::SELF_STOP_GRADIENT);
  EXPECT_EQ(config.routing().router_input(), v1::NORMALIZED_MEAN);
  EXPECT_EQ(config.routing().router_init_std(), 0.06);
}

TEST(ResolveModelConfigTest, DefaultFfnWidthIsLlamas) {
  for (const auto& [d_model, d_ff] :
       std::map<int, int>{{512, 1536}, {768, 2048}, {2048, 5632}, {4096, 11008}, {5120, 13824}}) {
    v1::ModelConfig config;
    config.set_d_model(d_model);
    EXPECT_EQ(ResolveModelConfig(config)->d_ff(), d_ff);
  }
}

TEST(ResolveModelConfigTest, EveryPresetResolvesAndResolvingTwiceChangesNothing) {
  for (const std::string& name : PresetNames()) {
    const v1::ModelConfig once = ResolveModelConfig(PresetConfig(name)).value();
    EXPECT_EQ(ResolveModelConfig(once)->DebugString(), once.DebugString()) << name;
    const v1::ModelConfig dense = DenseCounterpart(once);
    EXPECT_EQ(ResolveModelConfig(dense)->DebugString(), dense.DebugString()) << name;
    EXPECT_FALSE(UsesExperts(dense));
  }
}

TEST(ResolveModelConfigTest, ExplicitFieldsOverrideThePreset) {
  v1::ModelConfig config = PresetConfig("tiny/8E");
  config.set_vocab_size(300);
  config.mutable_routing()->set_num_experts(3);
  const v1::ModelConfig resolved = ResolveModelConfig(config).value();
  EXPECT_EQ(resolved.vocab_size(), 300);
  EXPECT_EQ(resolved.routing().num_experts(), 3);
  EXPECT_EQ(resolved.routing().segment_length(), 64);
  EXPECT_EQ(resolved.routing().router(), v1::CAUSAL_SEGMENT);
}

TEST(ResolveModelConfigTest, AnyNumberOfExpertsMayFollowTheSize) {
  EXPECT_EQ(ResolveModelConfig(PresetConfig("tiny/12E"))->routing().num_experts(), 12);
}

TEST(ResolveModelConfigTest, UnknownPresetNamesKnownAndNearest) {
  EXPECT_THAT(ResolveError(PresetConfig("tinny/8E")),
              AllOf(HasSubstr("model.preset"), HasSubstr("1.5B/32E"),
                    HasSubstr("did you mean \"tiny/8E\"")));
  for (const char* name : {"tiny/", "tiny/8", "tiny/E", "tiny/8EE", "tiny/-8E", "tiny/1E"}) {
    EXPECT_THAT(ResolveError(PresetConfig(name)), HasSubstr("did you mean \"tiny")) << name;
  }
}

TEST(ResolveModelConfigTest, BadShapesAreErrorsThatNameTheField) {
  const auto error = [](auto change) {
    v1::ModelConfig config = PresetConfig("tiny/8E");
    change(&config);
    return ResolveError(config);
  };
  using Config = v1::ModelConfig*;
  EXPECT_THAT(error([](Config c) { c->set_num_heads(3); }),
              AllOf(HasSubstr("model.num_heads: got 3"), HasSubstr("divisor of d_model 64")));
  EXPECT_THAT(error([](Config c) { c->set_num_heads(64); }), HasSubstr("even width"));
  EXPECT_THAT(error([](Config c) { c->set_num_layers(-1); }),
              HasSubstr("model.num_layers: got -1"));
  EXPECT_THAT(error([](Config c) { c->set_vocab_size(1); }), HasSubstr("model.vocab_size"));
  EXPECT_THAT(error([](Config c) { c->set_norm_epsilon(-1); }), HasSubstr("model.norm_epsilon"));
  EXPECT_THAT(error([](Config c) { c->set_norm_epsilon(1e-31); }),
              HasSubstr("model.norm_epsilon: got 1e-31, expected at least 1e-30"));
  EXPECT_THAT(error([](Config c) { c->mutable_routing()->set_segment_length(96); }),
              AllOf(HasSubstr("model.routing.segment_length: got 96"), HasSubstr("such as 64")));
  EXPECT_THAT(error([](Config c) { c->mutable_routing()->set_segment_length(1024); }),
              HasSubstr("expected 1 to 512"));
  EXPECT_THAT(error([](Config c) { c->mutable_routing()->set_router(v1::DENSE); }),
              AllOf(HasSubstr("model.routing.router: DENSE"), HasSubstr("num_experts 1")));
  EXPECT_THAT(error([](Config c) { c->mutable_routing()->set_router_init_std(-0.1); }),
              HasSubstr("model.routing.router_init_std"));
  EXPECT_THAT(error([](Config c) { c->set_z_loss(-1); }),
              HasSubstr("model.z_loss: got -1, expected 0 or a positive number"));
  EXPECT_THAT(error([](Config c) { c->set_logit_soft_cap(-30); }),
              HasSubstr("model.logit_soft_cap: got -30, expected 0 or a positive number"));
  EXPECT_THAT(error([](Config c) {
                c->mutable_dropout()->set_rate(0.1);
                c->mutable_routing()->set_router(v1::DENSE);
                c->mutable_routing()->set_num_experts(1);
                c->set_consistency_loss(2);
                c->set_z_loss(1e-4);
              }),
              HasSubstr("model.z_loss: got 0.0001 with consistency_loss 2"));
}

TEST(ResolveModelConfigTest, SmallestNormEpsilonIsAccepted) {
  EXPECT_EQ(ResolveModelConfig(ConfigFromText("norm_epsilon: 1e-30"))->norm_epsilon(), 1e-30);
}

// Every field is within its own limit; the product overflows 64 bits in the first case.
TEST(ResolveModelConfigTest, RefusesMoreParametersThanTheLimit) {
  const std::string widest = "d_model: 16777216 d_ff: 16777216 ";
  EXPECT_EQ(ResolveError(ConfigFromText("num_layers: 4096 " + widest +
                                        "routing { num_experts: 4096 segment_length: 64 }")),
            "model.num_layers: got 4096 with d_model 16777216, d_ff 16777216, vocab_size 32000 and "
            "routing.num_experts 4096, which make more parameters than the limit of "
            "281474976710656; reduce one of them");
  EXPECT_THAT(ResolveError(ConfigFromText("num_layers: 1 vocab_size: 2 " + widest)),
              HasSubstr("model.num_layers: got 1 with d_model 16777216"));
  // 32 layers with 4 + 3 matrices of 2^20 x 2^20 have 7 / 8 of the limit.
  const auto large = ResolveModelConfig(
      ConfigFromText("num_layers: 32 d_model: 1048576 d_ff: 1048576 vocab_size: 2"));
  EXPECT_GT(DescribeModel(large.value()).num_parameters(), int64_t{7} << 45);
}

TEST(ResolveModelConfigTest, RefusesTheWidthOfAGpt2BeforeItIsMultiplied) {
  EXPECT_THAT(ResolveError(ConfigFromText("family: GPT2 d_model: -2147483648")),
              HasSubstr("model.d_model: got -2147483648"));
}

TEST(ResolveModelConfigTest, RefusesWidthScalingThatCannotBe) {
  EXPECT_EQ(ResolveModelConfig(ConfigFromText("initialization: WIDTH_SCALED"))->base_width(), 64);
  EXPECT_THAT(ResolveError(ConfigFromText("initialization: WIDTH_SCALED tie_embeddings: true")),
              HasSubstr("model.tie_embeddings: got true with initialization WIDTH_SCALED"));
  EXPECT_THAT(ResolveError(ConfigFromText("initialization: WIDTH_SCALED base_width: 0")),
              HasSubstr("model.base_width: got 0"));
  EXPECT_THAT(ResolveError(ConfigFromText("base_width: 64")),
              HasSubstr("model.base_width: got 64 with initialization FAN_IN"));
}

}  // namespace model_config_test
}  // namespace braid
