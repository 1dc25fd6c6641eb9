#include "tests/model/random_model.h"

#include <cmath>
#include <string>

#include "gtest/gtest.h"
#include "model/config/model_config.h"
#include "tests/base/largest_difference.h"

namespace braid {

v1::ModelConfig SmallModelConfig(int num_experts) {
  v1::ModelConfig config;
  config.set_num_layers(2);
  config.set_d_model(16);
  config.set_num_heads(2);
  config.set_d_ff(24);
  config.set_vocab_size(50);
  config.set_sequence_length(24);
  config.mutable_routing()->set_num_experts(num_experts);
  config.mutable_routing()->set_segment_length(8);
  return ResolveModelConfig(config).value();
}

v1::ModelConfig SmallModelConfig(int num_experts, v1::Router router,
                                 const std::vector<int>& moe_layers) {
  v1::ModelConfig config = SmallModelConfig(num_experts);
  config.mutable_routing()->set_router(router);
  config.mutable_routing()->mutable_moe_layers()->Assign(moe_layers.begin(), moe_layers.end());
  if (router == v1::TOKEN_CHOICE) {
    config.mutable_routing()->mutable_token()->set_expert_d_ff(24 / num_experts);
  }
  return ResolveModelConfig(config).value();
}

std::vector<v1::ModelConfig> GroupedModelConfigs(int num_experts) {
  std::vector<v1::ModelConfig> configs(3, SmallModelConfig(num_experts));
  for (v1::ModelConfig& config : configs) {
    config.set_num_heads(4);
    config.set_num_key_value_heads(2);
  }
  configs[0].mutable_rope_scaling()->set_type(v1::LLAMA3_ROPE);
  configs[0].mutable_rope_scaling()->set_original_length(16);
  configs[0].set_rope_theta(100);
  configs[1].set_num_key_value_heads(1);
  configs[1].set_qkv_bias(true);
  configs[1].set_tie_embeddings(true);
  configs[2].set_head_dim(6);
  configs[2].set_qk_norm(true);
  for (v1::ModelConfig& config : configs) config = ResolveModelConfig(config).value();
  return configs;
}

std::unique_ptr<LanguageModel> SharpModel(const v1::ModelConfig& config, uint64_t seed) {
  std::unique_ptr<LanguageModel> model = LanguageModel::Create(config, seed).value();
  std::mt19937 random(static_cast<uint32_t>(seed));
  for (Parameter& parameter : model->parameters()) {
    if (parameter.name.ends_with(".bias")) {
      for (float& value : parameter.value) value = random() / std::ldexp(1.0f, 31) - 1;
    }
    if (parameter.name.find("router") == std::string::npos) continue;
    for (float& value : parameter.value) value *= 10;
  }
  return model;
}

std::vector<int32_t> RandomTokens(size_t count, int vocab_size, std::mt19937* random) {
  std::vector<int32_t> tokens(count);
  for (int32_t& token : tokens) token = static_cast<int32_t>((*random)() % vocab_size);
  return tokens;
}

double MaxDifference(const std::vector<float>& a, const std::vector<float>& b, size_t begin) {
  EXPECT_EQ(a.size(), b.size());
  return LargestDifference(a, b, begin);
}

}  // namespace braid
