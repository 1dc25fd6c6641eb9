// Numbers of parameters and operations of models.
#include <cstdint>
#include <cstdio>
#include <map>
#include <string>

#include "gtest/gtest.h"
#include "model/config/model_config.h"
#include "tests/model/config/preset_config.h"

namespace braid {
namespace describe_model_test {

std::string Billions(int64_t parameters) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.1f", static_cast<double>(parameters) * 1e-9);
  return text;
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
    const v1::ModelConfig config = ResolveModelConfig(ConfigFromText(text)).value();
    EXPECT_EQ(DescribeModel(config).num_parameters(), parameters) << text;
  }
}

TEST(DescribeModelTest, GivesThePapersParameterCounts) {
  const std::map<std::string, std::string> printed = {
      {"0.3B/8E", "1.8"}, {"0.3B/16E", "3.5"},  {"0.3B/32E", "6.8"},  {"1.5B", "1.5"},
      {"1.5B/8E", "7.8"}, {"1.5B/16E", "15.0"}, {"1.5B/32E", "29.5"}, {"7B/4E", "19.7"}};
  for (const auto& [preset, billions] : printed) {
    EXPECT_EQ(Billions(DescribePreset(preset).num_parameters()), billions) << preset;
  }
  EXPECT_NEAR(static_cast<double>(DescribePreset("7B").num_parameters()), 6738415616.0, 0.5);
}

// The paper's name excludes embedding and head, a sixth of the parameters.
TEST(DescribeModelTest, SmallestPaperModelCountsWithoutEmbeddings) {
  const v1::DescribeModelResponse response = DescribePreset("0.3B");
  int64_t inner = response.num_parameters();
  for (const v1::ParameterGroup& group : response.groups()) {
    if (group.name() == "embedding" || group.name() == "head") inner -= group.num_parameters();
  }
  EXPECT_EQ(Billions(inner), "0.3");
}

TEST(DescribeModelTest, ActiveParametersAreTheDenseModels) {
  for (const std::string size : {"tiny", "0.3B", "1.5B"}) {
    EXPECT_EQ(DescribePreset(size + "/16E").num_active_parameters(),
              DescribePreset(size).num_parameters());
  }
}

TEST(DescribeModelTest, CountsFlopsByHand) {
  const v1::DescribeModelResponse tiny = DescribePreset("tiny/8E");
  const double matrices = 4 * (4 * 64 * 64 + 3 * 64 * 256) + 64 * 2048;
  EXPECT_DOUBLE_EQ(tiny.flops_per_token(), 6 * matrices + 6.0 * 4 * 64 * 512);
  EXPECT_DOUBLE_EQ(tiny.merge_flops_per_token(), 8.0 * 8 * 4 * 3 * 64 * 256 / 64);
  EXPECT_EQ(tiny.training_state_bytes(), 16 * tiny.num_parameters());
  EXPECT_EQ(DescribePreset("tiny").merge_flops_per_token(), 0);
}

TEST(DescribeModelTest, TiedHeadIsCountedOnce) {
  v1::ModelConfig config = PresetConfig("tiny");
  config.set_tie_embeddings(true);
  const v1::DescribeModelResponse tied = DescribeModel(ResolveModelConfig(config).value());
  EXPECT_EQ(tied.num_parameters(), DescribePreset("tiny").num_parameters() - 64 * 2048);
  EXPECT_EQ(tied.flops_per_token(), DescribePreset("tiny").flops_per_token());
}

// Computed by hand: tiny has 8 segments of 64 in 512 positions.
TEST(DescribeModelTest, CountsFlopsOfEveryRouter) {
  const auto describe = [](v1::Router router, int num_experts) {
    v1::ModelConfig config = PresetConfig("tiny/8E");
    config.mutable_routing()->set_router(router);
    config.mutable_routing()->set_num_experts(num_experts);
    return DescribeModel(ResolveModelConfig(config).value());
  };
  const double dense = DescribePreset("tiny").flops_per_token(), ffn = 6.0 * 4 * 3 * 64 * 256;
  // The first segment, then the rest.
  const v1::DescribeModelResponse prefix = describe(v1::PREFIX, 8);
  EXPECT_DOUBLE_EQ(prefix.merge_flops_per_token(),
                   DescribePreset("tiny/8E").merge_flops_per_token() / 4);
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
  v1::ModelConfig config = PresetConfig("tiny/8E");
  EXPECT_EQ(TokensPerDecision(ResolveModelConfig(config).value()), 64);
  for (const v1::Router router : {v1::EXPERT_CHOICE_TOKEN, v1::TOKEN_CHOICE}) {
    config.mutable_routing()->set_router(router);
    EXPECT_EQ(TokensPerDecision(ResolveModelConfig(config).value()), 1);
  }
}

}  // namespace describe_model_test
}  // namespace braid
