// adapter_config.json of PEFT.
#include "base/check.h"
#include "inference/huggingface/adapter_config.h"
#include "model/config/finetuning_config.h"
#include "model/config/model_config.h"
#include "tests/fuzz/fuzz_target.h"

namespace braid {
namespace {

const v1::ModelConfig& Base() {
  static const auto* const base = [] {
    v1::ModelConfig model;
    model.set_preset("tiny");
    return new v1::ModelConfig(ResolveModelConfig(model).value());
  }();
  return *base;
}

std::string AdapterSeed(bool rs_lora, bool labels) {
  v1::LoraConfig lora;
  lora.set_rank(4);
  lora.set_alpha(8);
  lora.set_dropout(0.1);
  lora.set_rs_lora(rs_lora);
  lora.add_layers(1);
  v1::ModelConfig model = Base();
  if (labels) model.mutable_label_head()->set_regression(true);
  return FormatAdapterConfig(lora, {"q_proj", "v_proj"}, model, "run-000001");
}

}  // namespace

std::vector<std::string> FUZZ_SEEDS(adapter_config)() {
  return {AdapterSeed(false, false), AdapterSeed(true, true), R"({"peft_type": "LORA", "r": 2})"};
}

}  // namespace braid

int FUZZ_INPUT(adapter_config)(const uint8_t* data, size_t size) {
  const auto adapter = braid::ParseAdapterConfig(braid::AsText(data, size), "fuzz");
  if (!adapter.ok()) return 0;
  BRAID_CHECK(adapter->lora.rank() >= 1) << adapter->lora.DebugString();
  braid::v1::Finetuning finetuning;
  *finetuning.mutable_lora() = adapter->lora;
  const auto resolved = braid::ResolveFinetuning(finetuning, braid::Base());
  if (!resolved.ok()) return 0;
  BRAID_CHECK(!braid::AdaptersOf(braid::Base(), *resolved).empty());
  return 0;
}
