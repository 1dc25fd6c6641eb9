// config.json of a Hugging Face directory.
#include "base/check.h"
#include "inference/huggingface/config_json.h"
#include "model/config/model_config.h"
#include "tests/fuzz/fuzz_target.h"

namespace braid {
namespace {

std::string Seed(int num_experts) {
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
  const auto resolved = ResolveModelConfig(model);
  BRAID_CHECK(resolved.ok()) << resolved.status();
  return FormatConfigJson(*resolved, DType::kBF16, 2);
}

}  // namespace

std::vector<std::string> FuzzSeeds() { return {Seed(0), Seed(4)}; }

}  // namespace braid

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto model = braid::ParseConfigJson(braid::AsText(data, size), "fuzz");
  if (!model.ok()) return 0;
  BRAID_CHECK(braid::ResolveModelConfig(*model).ok()) << model->DebugString();
  return 0;
}
