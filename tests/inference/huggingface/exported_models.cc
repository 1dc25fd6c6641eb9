#include "tests/inference/huggingface/exported_models.h"

#include <algorithm>
#include <random>
#include <vector>

#include "base/check.h"
#include "model/config/model_config.h"
#include "runs/checkpoint_directory.h"
#include "tests/base/scratch_directory.h"
#include "trainer/training_state.h"

namespace braid {

namespace fs = std::filesystem;

const fs::path& TestTokenizerPath() {
  static const ScratchDirectory scratch;
  static const fs::path path = [] {
    const std::vector<std::string> texts(20, "the cat sat on the mat and ran after the dog. ");
    const absl::Status status =
        TrainTokenizer(texts, {.vocab_size = 280}, scratch / "tokenizer.model");
    BRAID_CHECK(status.ok()) << status.ToString();
    return scratch / "tokenizer.model";
  }();
  return path;
}

const Tokenizer& TestTokenizer() {
  static const std::unique_ptr<Tokenizer> tokenizer = *Tokenizer::Load(TestTokenizerPath());
  return *tokenizer;
}

v1::ModelConfig ExportedConfig(int num_experts) {
  v1::ModelConfig config;
  config.set_num_layers(2);
  config.set_d_model(16);
  config.set_num_heads(2);
  config.set_d_ff(24);
  config.set_vocab_size(TestTokenizer().vocab_size());
  config.set_sequence_length(40);
  config.mutable_routing()->set_num_experts(num_experts);
  config.mutable_routing()->set_segment_length(8);
  return ResolveModelConfig(config).value();
}

v1::ModelConfig ExportedGpt2() {
  v1::ModelConfig config = ExportedConfig(1);
  config.set_family(v1::GPT2);
  config.clear_rope_theta();
  return ResolveModelConfig(config).value();
}

std::vector<v1::ModelConfig> ExportedArchitectures() {
  v1::ModelConfig grouped = ExportedConfig(1);
  grouped.set_num_heads(4);
  grouped.set_num_key_value_heads(2);
  v1::ModelConfig llama3 = grouped, linear = grouped, qwen2 = grouped, qwen3 = grouped;
  llama3.mutable_rope_scaling()->set_type(v1::LLAMA3_ROPE);
  llama3.mutable_rope_scaling()->set_original_length(32);
  llama3.set_rope_theta(100);
  llama3.set_tie_embeddings(true);
  linear.mutable_rope_scaling()->set_type(v1::LINEAR_ROPE);
  linear.mutable_rope_scaling()->set_factor(2.5);
  linear.set_head_dim(6);
  qwen2.set_qkv_bias(true);
  qwen2.set_num_key_value_heads(1);
  qwen3.set_qk_norm(true);
  qwen3.set_head_dim(10);
  std::vector<v1::ModelConfig> configs = {ExportedConfig(1), llama3, linear, qwen2, qwen3};
  for (const v1::ModelConfig& dense : {llama3, qwen2, qwen3}) {
    configs.push_back(dense);
    *configs.back().mutable_routing() = ExportedConfig(4).routing();
  }
  for (v1::ModelConfig& config : configs) config = ResolveModelConfig(config).value();
  return configs;
}

std::unique_ptr<LanguageModel> RandomModel(const v1::ModelConfig& config, uint64_t seed) {
  std::unique_ptr<LanguageModel> model = LanguageModel::Create(config, seed).value();
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<float> factor(0.5f, 1.5f);
  for (Parameter& parameter : model->parameters()) {
    const float sharper = parameter.name.find("router") == std::string::npos ? 1 : 20;
    const bool bias = parameter.name.ends_with(".bias");
    for (float& value : parameter.value) {
      value = bias ? factor(random) - 1 : value * sharper * factor(random);
    }
  }
  return model;
}

fs::path CheckpointOf(LanguageModel& model, const fs::path& folder) {
  TrainingState state;
  state.model = LanguageModel::Create(model.config(), 0).value();
  std::ranges::copy(model.values(), state.model->values().begin());
  state.moments = {0, model.values().size()};
  state.m.assign(model.values().size(), 0.0f);
  state.v.assign(model.values().size(), 0.0f);
  state.step = 7;
  const absl::Status status = SaveState(state, folder, "key", TestTokenizerPath());
  BRAID_CHECK(status.ok()) << status.ToString();
  return CheckpointPath(folder, state.step);
}

bool HoldsStaging(const fs::path& directory) {
  return std::any_of(fs::directory_iterator(directory), {}, [](const fs::directory_entry& entry) {
    return entry.path().filename().string().starts_with('.');
  });
}

std::map<std::string, std::string> FilesOf(const fs::path& directory) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::directory_iterator(directory)) {
    files[entry.path().filename().string()] = GetFile(entry.path());
  }
  return files;
}

}  // namespace braid
