// config.json of a Hugging Face directory.
#include "base/check.h"
#include "google/protobuf/text_format.h"
#include "inference/huggingface/config_json.h"
#include "model/config/model_config.h"
#include "tests/fuzz/fuzz_target.h"

namespace braid {
namespace {

// `attention` is further fields of the configuration, as text.
std::string ModelSeed(int num_experts, const std::string& attention = "") {
  v1::ModelConfig model;
  model.set_num_layers(2);
  model.set_d_model(16);
  model.set_num_heads(2);
  model.set_d_ff(32);
  model.set_vocab_size(64);
  model.set_sequence_length(32);
  if (num_experts > 0) {
    model.mutable_routing()->set_num_experts(num_experts);
    model.mutable_routing()->set_segment_length(8);
  }
  BRAID_CHECK(google::protobuf::TextFormat::MergeFromString(attention, &model)) << attention;
  const auto resolved = ResolveModelConfig(model);
  BRAID_CHECK(resolved.ok()) << resolved.status();
  return FormatConfigJson(*resolved, DType::kBF16, {.start_id = 2, .eos_id = 2});
}

}  // namespace

std::vector<std::string> FUZZ_SEEDS(config_json)() {
  return {ModelSeed(0), ModelSeed(4),
          ModelSeed(0, "num_key_value_heads: 1 rope_scaling { type: LLAMA3_ROPE }"),
          ModelSeed(0, "head_dim: 6 qk_norm: true rope_scaling { type: LINEAR_ROPE }")};
}

}  // namespace braid

int FUZZ_INPUT(config_json)(const uint8_t* data, size_t size) {
  const auto model = braid::ParseConfigJson(braid::AsText(data, size), "fuzz");
  if (!model.ok()) return 0;
  BRAID_CHECK(braid::ResolveModelConfig(*model).ok()) << model->DebugString();
  return 0;
}
