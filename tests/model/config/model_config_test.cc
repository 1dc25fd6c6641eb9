#include "model/config/model_config.h"

#include <cstdio>
#include <functional>
#include <map>
#include <string>

#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "model/config/mixtral.h"
#include "model/config/parameter_layout.h"

namespace braid {
namespace model_config_test {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

v1::ModelConfig Preset(const std::string& name) {
  v1::ModelConfig config;
  config.set_preset(name);
  return config;
}

v1::DescribeModelResponse Describe(const std::string& preset) {
  return DescribeModel(ResolveModelConfig(Preset(preset)).value());
}

std::string Billions(int64_t parameters) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.1f", static_cast<double>(parameters) * 1e-9);
  return text;
}

std::string ErrorOf(const v1::ModelConfig& config) {
  const auto resolved = ResolveModelConfig(config);
  EXPECT_EQ(resolved.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(resolved.status().message());
}

v1::ModelConfig Shape(const char* text) {
  v1::ModelConfig config;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &config));
  return config;
}

// Parameter counts that the model cards or technical reports give.
TEST(DescribeModelTest, CountsTheParametersOfKnownModels) {
  const std::map<const char*, int64_t> models = {
      // Llama-3.2-1B
      {"num_layers: 16 d_model: 2048 num_heads: 32 num_key_value_heads: 8 d_ff: 8192 "
       "vocab_size: 128256 tie_embeddings: true",
       1235814400},
      // SmolLM2-135M
      {"num_layers: 30 d_model: 576 num_heads: 9 num_key_value_heads: 3 d_ff: 1536 "
       "vocab_size: 49152 tie_embeddings: true",
       134515008},
      // Qwen2.5-0.5B
      {"num_layers: 24 d_model: 896 num_heads: 14 num_key_value_heads: 2 d_ff: 4864 "
       "vocab_size: 151936 tie_embeddings: true qkv_bias: true",
       494032768},
      // Qwen3-0.6B
      {"num_layers: 28 d_model: 1024 num_heads: 16 num_key_value_heads: 8 head_dim: 128 "
       "d_ff: 3072 vocab_size: 151936 tie_embeddings: true qk_norm: true",
       596049920}};
  for (const auto& [text, parameters] : models) {
    const v1::ModelConfig config = ResolveModelConfig(Shape(text)).value();
    EXPECT_EQ(DescribeModel(config).num_parameters(), parameters) << text;
  }
}

// A configuration that an earlier version wrote equals one that states the defaults of new fields.
TEST(ResolveModelConfigTest, StatedDefaultsOfAttentionEqualAbsentFields) {
  const v1::ModelConfig absent = ResolveModelConfig(Shape("num_heads: 4")).value();
  const v1::ModelConfig stated =
      ResolveModelConfig(Shape("num_heads: 4 num_key_value_heads: 4 head_dim: 16 rope_scaling {} "
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
      {"qk_norm: true qkv_bias: true", "qkv_bias"}};
  for (const auto& [text, problem] : cases) {
    EXPECT_THAT(ErrorOf(Shape(text)), HasSubstr(problem)) << text;
  }
}

TEST(DescribeModelTest, GivesThePapersParameterCounts) {
  const std::map<std::string, std::string> printed = {
      {"0.3B/8E", "1.8"}, {"0.3B/16E", "3.5"},  {"0.3B/32E", "6.8"},  {"1.5B", "1.5"},
      {"1.5B/8E", "7.8"}, {"1.5B/16E", "15.0"}, {"1.5B/32E", "29.5"}, {"7B/4E", "19.7"}};
  for (const auto& [preset, billions] : printed) {
    EXPECT_EQ(Billions(Describe(preset).num_parameters()), billions) << preset;
  }
  EXPECT_NEAR(static_cast<double>(Describe("7B").num_parameters()), 6738415616.0, 0.5);
}

// The paper's name excludes embedding and head, a sixth of the parameters.
TEST(DescribeModelTest, SmallestPaperModelCountsWithoutEmbeddings) {
  const v1::DescribeModelResponse response = Describe("0.3B");
  int64_t inner = response.num_parameters();
  for (const v1::ParameterGroup& group : response.groups()) {
    if (group.name() == "embedding" || group.name() == "head") inner -= group.num_parameters();
  }
  EXPECT_EQ(Billions(inner), "0.3");
}

TEST(DescribeModelTest, ActiveParametersAreTheDenseModels) {
  for (const std::string size : {"tiny", "0.3B", "1.5B"}) {
    EXPECT_EQ(Describe(size + "/16E").num_active_parameters(), Describe(size).num_parameters());
  }
}

TEST(DescribeModelTest, CountsFlopsByHand) {
  const v1::DescribeModelResponse tiny = Describe("tiny/8E");
  const double matrices = 4 * (4 * 64 * 64 + 3 * 64 * 256) + 64 * 2048;
  EXPECT_DOUBLE_EQ(tiny.flops_per_token(), 6 * matrices + 6.0 * 4 * 64 * 512);
  EXPECT_DOUBLE_EQ(tiny.merge_flops_per_token(), 8.0 * 8 * 4 * 3 * 64 * 256 / 64);
  EXPECT_EQ(tiny.training_state_bytes(), 16 * tiny.num_parameters());
  EXPECT_EQ(Describe("tiny").merge_flops_per_token(), 0);
}

TEST(DescribeModelTest, TiedHeadIsCountedOnce) {
  v1::ModelConfig config = Preset("tiny");
  config.set_tie_embeddings(true);
  const v1::DescribeModelResponse tied = DescribeModel(ResolveModelConfig(config).value());
  EXPECT_EQ(tied.num_parameters(), Describe("tiny").num_parameters() - 64 * 2048);
  EXPECT_EQ(tied.flops_per_token(), Describe("tiny").flops_per_token());
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
    const v1::ModelConfig once = ResolveModelConfig(Preset(name)).value();
    EXPECT_EQ(ResolveModelConfig(once)->DebugString(), once.DebugString()) << name;
    const v1::ModelConfig dense = DenseCounterpart(once);
    EXPECT_EQ(ResolveModelConfig(dense)->DebugString(), dense.DebugString()) << name;
    EXPECT_FALSE(UsesExperts(dense));
  }
}

TEST(ResolveModelConfigTest, ExplicitFieldsOverrideThePreset) {
  v1::ModelConfig config = Preset("tiny/8E");
  config.set_vocab_size(300);
  config.mutable_routing()->set_num_experts(3);
  const v1::ModelConfig resolved = ResolveModelConfig(config).value();
  EXPECT_EQ(resolved.vocab_size(), 300);
  EXPECT_EQ(resolved.routing().num_experts(), 3);
  EXPECT_EQ(resolved.routing().segment_length(), 64);
  EXPECT_EQ(resolved.routing().router(), v1::CAUSAL_SEGMENT);
}

TEST(ResolveModelConfigTest, AnyNumberOfExpertsMayFollowTheSize) {
  EXPECT_EQ(ResolveModelConfig(Preset("tiny/12E"))->routing().num_experts(), 12);
}

TEST(ResolveModelConfigTest, UnknownPresetNamesKnownAndNearest) {
  EXPECT_THAT(ErrorOf(Preset("tinny/8E")), AllOf(HasSubstr("model.preset"), HasSubstr("1.5B/32E"),
                                                 HasSubstr("did you mean \"tiny/8E\"")));
  for (const char* name : {"tiny/", "tiny/8", "tiny/E", "tiny/8EE", "tiny/-8E", "tiny/1E"}) {
    EXPECT_THAT(ErrorOf(Preset(name)), HasSubstr("did you mean \"tiny")) << name;
  }
}

TEST(ResolveModelConfigTest, BadShapesAreErrorsThatNameTheField) {
  const auto error = [](auto change) {
    v1::ModelConfig config = Preset("tiny/8E");
    change(&config);
    return ErrorOf(config);
  };
  using Config = v1::ModelConfig*;
  EXPECT_THAT(error([](Config c) { c->set_num_heads(3); }),
              AllOf(HasSubstr("model.num_heads: got 3"), HasSubstr("divisor of d_model 64")));
  EXPECT_THAT(error([](Config c) { c->set_num_heads(64); }), HasSubstr("even width"));
  EXPECT_THAT(error([](Config c) { c->set_num_layers(-1); }),
              HasSubstr("model.num_layers: got -1"));
  EXPECT_THAT(error([](Config c) { c->set_vocab_size(1); }), HasSubstr("model.vocab_size"));
  EXPECT_THAT(error([](Config c) { c->set_norm_epsilon(-1); }), HasSubstr("model.norm_epsilon"));
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

v1::ModelConfig WithLayers(const std::vector<int>& layers) {
  v1::ModelConfig config = Preset("tiny/8E");
  config.mutable_routing()->mutable_moe_layers()->Assign(layers.begin(), layers.end());
  return config;
}

TEST(MoeLayersTest, AllLayersUnlessListed) {
  EXPECT_THAT(MoeLayers(ResolveModelConfig(Preset("tiny/8E")).value()), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(MoeLayers(ResolveModelConfig(Preset("tiny")).value()), ElementsAre());
  const v1::ModelConfig mixed = ResolveModelConfig(WithLayers({1, 3})).value();
  EXPECT_THAT(MoeLayers(mixed), ElementsAre(1, 3));
  EXPECT_FALSE(IsMoeLayer(mixed, 0));
  EXPECT_TRUE(IsMoeLayer(mixed, 3));
}

// Otherwise a checkpoint of one would not belong to a run of the other.
TEST(MoeLayersTest, AListOfEveryLayerResolvesToNone) {
  EXPECT_EQ(ResolveModelConfig(WithLayers({0, 1, 2, 3}))->DebugString(),
            ResolveModelConfig(Preset("tiny/8E"))->DebugString());
}

TEST(MoeLayersTest, BadListsAreErrorsThatNameTheLayer) {
  EXPECT_THAT(ErrorOf(WithLayers({0, 4})),
              HasSubstr("model.routing.moe_layers: got 4, expected 0 to 3"));
  EXPECT_THAT(ErrorOf(WithLayers({-1})), HasSubstr("got -1, expected 0 to 3"));
  EXPECT_THAT(ErrorOf(WithLayers({1, 1})),
              HasSubstr("got 1 after 1, expected ascending layers, each once"));
  EXPECT_THAT(ErrorOf(WithLayers({2, 0})), HasSubstr("got 0 after 2"));
  EXPECT_THAT(ErrorOf(WithLayers({0, 0, 0, 0})), HasSubstr("got 0 after 0"));
  v1::ModelConfig dense = Preset("tiny");
  dense.mutable_routing()->add_moe_layers(1);
  EXPECT_THAT(ErrorOf(dense), AllOf(HasSubstr("model.routing.moe_layers: got 1 layer(s)"),
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
  const v1::DescribeModelResponse dense = Describe("tiny"), one = describe(WithLayers({2})),
                                  all = Describe("tiny/8E");
  const int64_t ffn = 3 * 64 * 256;
  EXPECT_EQ(one.num_parameters(), dense.num_parameters() + 7 * ffn + 8 * 64);
  EXPECT_EQ(one.num_active_parameters(), dense.num_parameters());
  EXPECT_EQ(one.flops_per_token(), dense.flops_per_token());
  EXPECT_DOUBLE_EQ(one.merge_flops_per_token(), all.merge_flops_per_token() / 4);
}

// Computed by hand: tiny has 8 segments of 64 in 512 positions.
TEST(DescribeModelTest, CountsFlopsOfEveryRouter) {
  const auto describe = [](v1::Router router, int num_experts) {
    v1::ModelConfig config = Preset("tiny/8E");
    config.mutable_routing()->set_router(router);
    config.mutable_routing()->set_num_experts(num_experts);
    return DescribeModel(ResolveModelConfig(config).value());
  };
  const double dense = Describe("tiny").flops_per_token(), ffn = 6.0 * 4 * 3 * 64 * 256;
  // The first segment, then the rest.
  const v1::DescribeModelResponse prefix = describe(v1::PREFIX, 8);
  EXPECT_DOUBLE_EQ(prefix.merge_flops_per_token(), Describe("tiny/8E").merge_flops_per_token() / 4);
  EXPECT_DOUBLE_EQ(prefix.flops_per_token(), dense);
  EXPECT_DOUBLE_EQ(describe(v1::EXPERT_CHOICE_SEGMENT, 8).flops_per_token(), dense);
  EXPECT_EQ(describe(v1::EXPERT_CHOICE_SEGMENT, 8).merge_flops_per_token(), 0);
  // 16 experts take one of 8 segments each; 3 take 3 of them.
  EXPECT_DOUBLE_EQ(describe(v1::EXPERT_CHOICE_SEGMENT, 16).flops_per_token(), dense + ffn);
  EXPECT_DOUBLE_EQ(describe(v1::EXPERT_CHOICE_SEGMENT, 3).flops_per_token(), dense + ffn / 8);
  EXPECT_DOUBLE_EQ(describe(v1::EXPERT_CHOICE_TOKEN, 8).flops_per_token(),
                   dense + 6.0 * 4 * 64 * 8);
}

TEST(DescribeModelTest, TokensPerDecisionIsOneOnlyWhereTokensAreRouted) {
  v1::ModelConfig config = Preset("tiny/8E");
  EXPECT_EQ(TokensPerDecision(ResolveModelConfig(config).value()), 64);
  for (const v1::Router router : {v1::EXPERT_CHOICE_TOKEN, v1::TOKEN_CHOICE}) {
    config.mutable_routing()->set_router(router);
    EXPECT_EQ(TokensPerDecision(ResolveModelConfig(config).value()), 1);
  }
}

// "tiny/8E" with experts of 32 of the 256 hidden units.
v1::ModelConfig TokenChoicePreset() {
  v1::ModelConfig config = Preset("tiny/8E");
  config.mutable_routing()->set_router(v1::TOKEN_CHOICE);
  return config;
}

TEST(TokenRoutingTest, DefaultsSplitTheFfnAndUseTwoExperts) {
  const v1::ModelConfig resolved = ResolveModelConfig(TokenChoicePreset()).value();
  const v1::TokenRouting& token = resolved.routing().token();
  EXPECT_EQ(token.gate(), v1::TokenRouting::LINEAR);
  EXPECT_EQ(token.combine_weights(), v1::TokenRouting::SOFTMAX_OF_CHOSEN);
  EXPECT_EQ(token.selection(), v1::TokenRouting::TOP);
  EXPECT_EQ(token.active_experts(), 2);
  EXPECT_EQ(token.expert_d_ff(), 32);
  EXPECT_EQ(resolved.routing().router_input(), v1::PLAIN_MEAN);
  EXPECT_EQ(ResolveModelConfig(resolved)->SerializeAsString(), resolved.SerializeAsString());
  v1::ModelConfig random = TokenChoicePreset();
  random.mutable_routing()->mutable_token()->set_gate(v1::TokenRouting::RANDOM);
  EXPECT_EQ(ResolveModelConfig(random)->routing().token().combine_weights(),
            v1::TokenRouting::EQUAL);
  EXPECT_FALSE(DenseCounterpart(resolved).routing().has_token());
}

TEST(TokenRoutingTest, WorkAndActiveParametersAreThoseOfTheChosenExperts) {
  const v1::DescribeModelResponse dense = Describe("tiny");
  const v1::DescribeModelResponse routed =
      DescribeModel(ResolveModelConfig(TokenChoicePreset()).value());
  const int64_t ffn = 4 * 3 * 64 * 256, gates = 4 * 8 * 64;
  EXPECT_EQ(routed.num_parameters(), dense.num_parameters() + gates);
  EXPECT_EQ(routed.num_active_parameters(), dense.num_parameters() - ffn * 3 / 4);
  EXPECT_DOUBLE_EQ(routed.flops_per_token(),
                   dense.flops_per_token() + 6.0 * (static_cast<double>(gates) - ffn * 0.75));
  EXPECT_EQ(routed.merge_flops_per_token(), 0);
}

TEST(TokenRoutingTest, RefusesWhatCannotWorkByName) {
  using Token = v1::TokenRouting;
  const auto error = [](const std::function<void(v1::RoutingConfig*, Token*)>& change) {
    v1::ModelConfig config = TokenChoicePreset();
    change(config.mutable_routing(), config.mutable_routing()->mutable_token());
    return std::string(ResolveModelConfig(config).status().message());
  };
  using Routing = v1::RoutingConfig;
  const auto starts = [](const std::string& text) { return testing::StartsWith(text); };
  EXPECT_THAT(error([](Routing*, Token* t) { t->set_active_experts(9); }),
              starts("model.routing.token.active_experts: got 9, expected 1 to 8"));
  EXPECT_THAT(error([](Routing*, Token* t) { t->set_active_experts(0); }),
              starts("model.routing.token.active_experts: got 0, expected 1 to 8"));
  EXPECT_THAT(
      error([](Routing* r, Token*) { r->set_num_experts(7); }),
      starts("model.routing.num_experts: got 7, expected a divisor of d_ff 256, such as 8"));
  EXPECT_THAT(error([](Routing*, Token* t) {
                t->set_gate(Token::KEY_MEAN);
                t->set_expert_d_ff(256);
              }),
              starts("model.routing.token.gate: KEY_MEAN needs experts that are slices"));
  EXPECT_THAT(error([](Routing*, Token* t) {
                t->set_combine_weights(Token::ONES);
                t->set_expert_d_ff(256);
              }),
              starts("model.routing.token.combine_weights: ONES needs experts that are slices"));
  EXPECT_THAT(error([](Routing*, Token* t) {
                t->set_gate(Token::FROZEN);
                t->set_balance_loss(0.01);
              }),
              starts("model.routing.token.balance_loss: got 0.01, but the gate FROZEN is not"));
  EXPECT_THAT(error([](Routing*, Token* t) {
                t->set_gate(Token::RANDOM);
                t->set_combine_weights(Token::SOFTMAX_OF_CHOSEN);
              }),
              starts("model.routing.token.combine_weights: got SOFTMAX_OF_CHOSEN, but the gate"));
  EXPECT_THAT(error([](Routing*, Token* t) { t->set_gate_noise_std(-1); }),
              starts("model.routing.token.gate_noise_std: got -1"));
  EXPECT_THAT(error([](Routing* r, Token*) { r->set_router(v1::CAUSAL_SEGMENT); }),
              starts("model.routing.token: the router is CAUSAL_SEGMENT, expected TOKEN_CHOICE"));
}

TEST(ParameterLayoutTest, LeavesNoGapsAndUsesLlamaNames) {
  const v1::ModelConfig config = ResolveModelConfig(Preset("tiny")).value();
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
  v1::ModelConfig config = Preset("tiny/8E");
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
    v1::ModelConfig config = Preset("tiny/8E");
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

TEST(WhyNotMixtralTest, NamesTheFirstSettingThatAMixtralLacks) {
  const std::string chosen = "router: TOKEN_CHOICE num_experts: 4 ";
  const auto why = [&](const std::string& routing, const std::string& more = "") {
    const std::string text = "routing { " + chosen + routing + " } " + more;
    return WhyNotMixtral(ResolveModelConfig(Shape(text.c_str())).value());
  };
  EXPECT_EQ(why(""), "");
  EXPECT_EQ(why("token { gate: FROZEN }"), "");
  EXPECT_EQ(why("moe_layers: 1"), "some layers are dense");
  EXPECT_EQ(why("token { gate: RELU }"), "the gate is RELU, expected LINEAR or FROZEN");
  EXPECT_EQ(why("token { combine_weights: EQUAL }"),
            "the combine weights are EQUAL, expected SOFTMAX_OF_CHOSEN");
  EXPECT_EQ(why("token { selection: BOTTOM }"), "the selection is BOTTOM, expected TOP");
  EXPECT_EQ(why("router_input: NORMALIZED_MEAN"),
            "the input of the gate is NORMALIZED_MEAN, expected PLAIN_MEAN");
  EXPECT_EQ(why("", "qkv_bias: true"), "attention has biases or norms");
  EXPECT_EQ(why("", "logit_soft_cap: 30"), "the logits are bounded (logit_soft_cap)");
}

TEST(ResolveModelConfigTest, RefusesWidthScalingThatCannotBe) {
  EXPECT_EQ(ResolveModelConfig(Shape("initialization: WIDTH_SCALED"))->base_width(), 64);
  EXPECT_THAT(ErrorOf(Shape("initialization: WIDTH_SCALED tie_embeddings: true")),
              HasSubstr("model.tie_embeddings: got true with initialization WIDTH_SCALED"));
  EXPECT_THAT(ErrorOf(Shape("initialization: WIDTH_SCALED base_width: 0")),
              HasSubstr("model.base_width: got 0"));
  EXPECT_THAT(ErrorOf(Shape("base_width: 64")),
              HasSubstr("model.base_width: got 64 with initialization FAN_IN"));
}

}  // namespace model_config_test
}  // namespace braid
