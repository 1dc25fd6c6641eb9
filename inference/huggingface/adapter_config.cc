#include "inference/huggingface/adapter_config.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/json_fields.h"
#include "base/status_macros.h"
#include "base/strict_json.h"
#include "model/config/family_config.h"

namespace braid {
namespace {

constexpr char kLabelTask[] = "SEQ_CLS";
constexpr int kAdapterConfigLevels = 8;

}  // namespace

absl::StatusOr<AdapterConfig> ParseAdapterConfig(std::string_view text,
                                                 const std::filesystem::path& path) {
  ASSIGN_OR_RETURN(const nlohmann::json json,
                   ParseStrictJsonObject(text, kAdapterConfigLevels, path));
  JsonFields fields(json, path.string());
  AdapterConfig config;
  v1::LoraConfig& lora = config.lora;
  fields.Require(fields.Text("peft_type", "") == "LORA", "peft_type", "LORA");
  lora.set_rank(static_cast<int32_t>(fields.Integer("r", {.minimum = 1})));
  lora.set_alpha(fields.Number("lora_alpha", 8));
  lora.set_dropout(fields.Number("lora_dropout", 0));
  lora.set_rs_lora(fields.Flag("use_rslora"));
  fields.RequireOnly("use_dora", false, ": weights by magnitude and direction are not supported");
  fields.RequireOnly("bias", "none");
  fields.RequireOnly("lora_bias", false);
  fields.RequireOnly("use_qalora", false, ": adapters of groups of inputs are not supported");
  const nlohmann::json& initial = fields["init_lora_weights"];
  fields.Require(
      initial.is_null() || initial.is_boolean() || initial == "gaussian" || initial == "eva",
      "init_lora_weights",
      "true, false, \"gaussian\" or \"eva\": other initializations change the weights of the base; "
      "save the adapter with path_initial_model_for_weight_conversion");
  const nlohmann::json& invocation = fields["alora_invocation_tokens"];
  fields.Require(invocation.is_null() || invocation == nlohmann::json::array(),
                 "alora_invocation_tokens",
                 "nothing: adapters that begin after certain tokens are not supported");
  config.fan_in_fan_out = fields.Flag("fan_in_fan_out");
  config.labels = fields.Text("task_type", "") == kLabelTask;
  for (const char* pattern : {"rank_pattern", "alpha_pattern"}) {
    fields.RequireOnly(pattern, nlohmann::json::object(),
                       ": adapters of several ranks or scales are not supported");
  }
  const nlohmann::json& saved = fields["modules_to_save"];
  const bool head = config.labels && saved.is_array() &&
                    std::ranges::all_of(saved, [](const nlohmann::json& module) {
                      return module == "score" || module == "classifier";
                    });
  fields.Require(saved.is_null() || saved.empty() || head, "modules_to_save",
                 "no modules but adapters, or the score of task_type SEQ_CLS");
  for (const char* field : {"layer_replication", "target_parameters", "trainable_token_indices"}) {
    fields.Require(fields[field].is_null(), field, "nothing: adapters of projections only");
  }
  RETURN_IF_ERROR(fields.status());
  return config;
}

std::string FormatAdapterConfig(const v1::LoraConfig& lora, const std::vector<std::string>& modules,
                                const v1::ModelConfig& model, const std::string& base) {
  nlohmann::ordered_json saved;  // null: no module but adapters
  if (model.has_label_head()) saved = nlohmann::ordered_json::array({"score"});
  nlohmann::ordered_json json = {{"peft_type", "LORA"},
                                 {"task_type", model.has_label_head() ? kLabelTask : "CAUSAL_LM"},
                                 {"base_model_name_or_path", base},
                                 {"r", lora.rank()},
                                 {"lora_alpha", lora.alpha()},
                                 {"lora_dropout", lora.dropout()},
                                 {"use_rslora", lora.rs_lora()},
                                 {"target_modules", modules},
                                 {"bias", "none"},
                                 {"fan_in_fan_out", IsGpt2(model)},
                                 {"inference_mode", true},
                                 {"modules_to_save", saved},
                                 {"rank_pattern", nlohmann::ordered_json::object()},
                                 {"alpha_pattern", nlohmann::ordered_json::object()}};
  if (!lora.layers().empty()) {
    json["layers_to_transform"] = std::vector<int>(lora.layers().begin(), lora.layers().end());
  }
  return json.dump(2) + "\n";
}

}  // namespace braid
