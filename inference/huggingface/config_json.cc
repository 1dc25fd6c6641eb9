#include "inference/huggingface/config_json.h"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/json_fields.h"
#include "base/status_macros.h"
#include "base/strict_json.h"
#include "inference/huggingface/gpt2_config_json.h"
#include "inference/huggingface/label_json.h"
#include "inference/huggingface/mixing_json.h"
#include "inference/huggingface/routing_json.h"
#include "model/config/attention_config.h"
#include "model/config/family_config.h"
#include "model/config/mixtral.h"
#include "model/config/model_config.h"

namespace braid {
namespace {

using Json = nlohmann::json;

constexpr char kSoftMoe[] = "braid_soft_moe";

// A model_type of Hugging Face, and what its configuration class assumes of absent fields.
struct Family {
  std::string_view model_type;
  std::string_view architecture;
  // 0 stands for num_attention_heads and hidden_size / num_attention_heads.
  int default_key_value_heads = 0;
  int default_head_dim = 0;
  double default_norm_epsilon = 1e-6;
  double default_rope_theta = 10000;
  int default_sliding_window = 0;  // 0: none
};

constexpr Family kLlama{"llama", "LlamaForCausalLM"};
constexpr Family kQwen2{.model_type = "qwen2",
                        .architecture = "Qwen2ForCausalLM",
                        .default_key_value_heads = 32,
                        .default_sliding_window = 4096};
constexpr Family kQwen3{.model_type = "qwen3",
                        .architecture = "Qwen3ForCausalLM",
                        .default_key_value_heads = 32,
                        .default_head_dim = 128,
                        .default_sliding_window = 4096};
constexpr Family kMixtral{.model_type = "mixtral",
                          .architecture = "MixtralForCausalLM",
                          .default_key_value_heads = 8,
                          .default_norm_epsilon = 1e-5,
                          .default_rope_theta = 1e6};
constexpr Family kMistral{.model_type = "mistral",
                          .architecture = "MistralForCausalLM",
                          .default_key_value_heads = 8,
                          .default_sliding_window = 4096};
constexpr Family kGpt2{kGpt2Type, "GPT2LMHeadModel"};
constexpr Family kFamilies[] = {
    kLlama, kMixtral, kGpt2, kMistral, kQwen2, kQwen3, {kSoftMoe, "BraidSoftMoeForCausalLM"}};

constexpr int kDeepestLevel = 16;
constexpr int kDefaultSegmentLength = 256;

bool IsDense(const v1::ModelConfig& config) { return config.routing().router() == v1::DENSE; }

// Mistral without a sliding window is a LLaMA.
const Family& FamilyOf(const v1::ModelConfig& config) {
  if (IsMixtral(config)) return kMixtral;
  if (!IsDense(config)) return std::end(kFamilies)[-1];
  if (IsGpt2(config)) return kGpt2;
  if (config.qk_norm()) return kQwen3;
  return config.qkv_bias() ? kQwen2 : kLlama;
}

std::string TorchName(DType dtype) {
  switch (dtype) {
    case DType::kF16:
      return "float16";
    case DType::kBF16:
      return "bfloat16";
    default:
      BRAID_CHECK(dtype == DType::kF32) << std::string(DTypeName(dtype));
      return "float32";
  }
}

nlohmann::ordered_json RopeScalingJson(const v1::RopeScaling& scaling) {
  if (scaling.type() == v1::LINEAR_ROPE) {
    return {{"rope_type", "linear"}, {"factor", scaling.factor()}};
  }
  if (scaling.type() != v1::LLAMA3_ROPE) return nullptr;
  return {{"rope_type", "llama3"},
          {"factor", scaling.factor()},
          {"low_freq_factor", scaling.low_frequency_factor()},
          {"high_freq_factor", scaling.high_frequency_factor()},
          {"original_max_position_embeddings", scaling.original_length()}};
}

// Adds the fields that only some families have.
void AddFamilyFields(const v1::ModelConfig& config, const Family& family,
                     nlohmann::ordered_json* json) {
  const bool qwen2 = family.model_type == kQwen2.model_type;
  const bool qwen3 = family.model_type == kQwen3.model_type;
  if (family.model_type == kMixtral.model_type) {
    (*json)["intermediate_size"] = config.routing().token().expert_d_ff();
    (*json)["num_local_experts"] = config.routing().num_experts();
    (*json)["num_experts_per_tok"] = config.routing().token().active_experts();
    (*json)["sliding_window"] = nullptr;
    if (config.has_head_dim()) (*json)["head_dim"] = HeadsOf(config).width;
    return;
  }
  if (config.has_head_dim() || qwen3) (*json)["head_dim"] = HeadsOf(config).width;
  if (!qwen2) (*json)["attention_bias"] = false;
  if (qwen2 || qwen3) {
    (*json)["use_sliding_window"] = false;
  } else {
    (*json)["mlp_bias"] = false;
  }
  if (IsDense(config)) return;
  if (config.qkv_bias()) (*json)["qkv_bias"] = true;
  if (config.qk_norm()) (*json)["qk_norm"] = true;
}

// Zero is left to the callers, for which it may mean "the default".
int32_t Count(JsonFields* fields, const char* field,
              std::optional<int64_t> fallback = std::nullopt) {
  return static_cast<int32_t>(
      fields->Integer(field, {.minimum = 0, .maximum = INT32_MAX, .fallback = fallback}));
}

void ReadLlama3Scaling(JsonFields* fields, v1::RopeScaling* scaling) {
  scaling->set_type(v1::LLAMA3_ROPE);
  scaling->set_low_frequency_factor(fields->Number("low_freq_factor", 0));
  scaling->set_high_frequency_factor(fields->Number("high_freq_factor", 0));
  scaling->set_original_length(Count(fields, "original_max_position_embeddings"));
}

// Reads the object that holds the kind of RoPE: rope_scaling, or rope_parameters of transformers 5,
// which moved rope_theta into it. `source` begins every message.
absl::Status ReadRopeObject(const Json& object, const std::string& source,
                            v1::ModelConfig* config) {
  if (!object.is_object()) {
    // In ASCII: a cut may divide a character.
    const std::string got = object.dump(/*indent=*/-1, ' ', /*ensure_ascii=*/true).substr(0, 80);
    return absl::InvalidArgumentError(absl::StrCat(source, ": got ", got, ", expected an object"));
  }
  JsonFields fields(object, source);
  config->set_rope_theta(fields.Number("rope_theta", config->rope_theta()));
  const char* const key = fields.Has("rope_type") ? "rope_type" : "type";
  const std::string type = fields.Text(key, "default");
  fields.Require(type == "default" || type == "linear" || type == "llama3", key,
                 "\"default\", \"linear\" or \"llama3\" (no other scaling of RoPE is supported)");
  fields.Require(fields.Number("partial_rotary_factor", 1) == 1, "partial_rotary_factor", "1");
  if (type == "default") return fields.status();
  v1::RopeScaling* const scaling = config->mutable_rope_scaling();
  scaling->set_type(v1::LINEAR_ROPE);
  scaling->set_factor(fields.Number("factor", 0));
  fields.Require(scaling->factor() > 0, "factor", "a positive number");
  if (type == "llama3") ReadLlama3Scaling(&fields, scaling);
  return fields.status();
}

absl::Status ReadRope(const Family& family, const std::string& source, JsonFields* fields,
                      v1::ModelConfig* config) {
  config->set_rope_theta(fields->Number("rope_theta", family.default_rope_theta));
  for (const char* field : {"rope_scaling", "rope_parameters"}) {
    if (!fields->Has(field)) continue;
    RETURN_IF_ERROR(ReadRopeObject((*fields)[field], absl::StrCat(source, ": ", field), config));
  }
  fields->Require(config->rope_theta() > 0, "rope_theta", "a positive number");
  return absl::OkStatus();
}

// Attention within a window is full attention when the window covers the context. A null means that
// there is none, an absent field the window of the family.
void RequireFullAttention(const Json& json, const v1::ModelConfig& config, const Family& family,
                          JsonFields* fields) {
  const bool mistral =
      family.model_type == kMistral.model_type || family.model_type == kMixtral.model_type;
  const int32_t length = config.sequence_length();
  const bool used = fields->Flag("use_sliding_window");
  const bool by_default = !json.contains("sliding_window") && family.default_sliding_window > 0;
  if ((mistral || used) && (by_default || fields->Has("sliding_window"))) {
    const int32_t window = Count(fields, "sliding_window", family.default_sliding_window);
    fields->Require(window >= length, "sliding_window",
                    absl::StrCat("null or at least max_position_embeddings ", length,
                                 "; to use the model within its window, lower "
                                 "max_position_embeddings to it"));
  }
  if (!fields->Has("layer_types") || used) return;
  for (const Json& type : (*fields)["layer_types"]) {
    fields->Require(type == "full_attention", "layer_types", "only \"full_attention\"");
  }
}

// Rejects settings that braid does not implement.
void RequireSupported(const Json& json, const v1::ModelConfig& config, const Family& family,
                      JsonFields* fields) {
  fields->Require(fields->Text("hidden_act", "silu") == "silu", "hidden_act", "\"silu\"");
  fields->Require(!fields->Flag("attention_bias"), "attention_bias",
                  "false (a bias of the output projection is not supported)");
  fields->Require(!fields->Flag("mlp_bias"), "mlp_bias", "false (biases are not supported)");
  fields->Require(!fields->Flag("rope_interleaved"), "rope_interleaved", "false");
  fields->Require(!fields->Has("quantization_config"), "quantization_config",
                  "nothing (quantized weights are not supported; save the model dequantized)");
  fields->Require(fields->Number("partial_rotary_factor", 1) == 1, "partial_rotary_factor", "1");
  RequireFullAttention(json, config, family, fields);
}

// A null means as many heads of keys and values as of queries, an absent field those of the family.
void ReadAttention(const Json& json, const Family& family, JsonFields* fields,
                   v1::ModelConfig* config) {
  const int32_t heads = config->num_heads(), stated = family.default_key_value_heads;
  const bool by_default = !json.contains("num_key_value_heads") && stated > 0;
  config->set_num_key_value_heads(
      Count(fields, "num_key_value_heads", by_default ? stated : heads));
  const int32_t width = Count(fields, "head_dim", family.default_head_dim);
  if (width > 0) config->set_head_dim(width);
  const bool ours = family.model_type == kSoftMoe;
  config->set_qkv_bias(ours ? fields->Flag("qkv_bias") : family.model_type == kQwen2.model_type);
  config->set_qk_norm(ours ? fields->Flag("qk_norm") : family.model_type == kQwen3.model_type);
}

const Family* FindFamily(const std::string& model_type) {
  const auto found =
      std::ranges::find(kFamilies, std::string_view(model_type), &Family::model_type);
  return found == std::end(kFamilies) ? nullptr : found;
}

// Reads the experts of a Mixtral.
void ReadMixtral(JsonFields* fields, v1::ModelConfig* config) {
  for (const char* field : {"n_shared_experts", "shared_expert_intermediate_size"}) {
    fields->Require(!fields->Has(field), field, "nothing (shared experts are not supported)");
  }
  v1::RoutingConfig* const routing = config->mutable_routing();
  routing->set_router(v1::TOKEN_CHOICE);
  routing->set_num_experts(Count(fields, "num_local_experts", 8));
  routing->mutable_token()->set_gate(v1::TokenRouting::LINEAR);
  routing->mutable_token()->set_combine_weights(v1::TokenRouting::SOFTMAX_OF_CHOSEN);
  routing->mutable_token()->set_active_experts(Count(fields, "num_experts_per_tok", 2));
  routing->mutable_token()->set_expert_d_ff(config->d_ff());
}

v1::ModelConfig ReadShape(const Family& family, JsonFields* fields) {
  v1::ModelConfig config;
  config.set_vocab_size(Count(fields, "vocab_size"));
  config.set_d_model(Count(fields, "hidden_size"));
  config.set_d_ff(Count(fields, "intermediate_size"));
  config.set_num_layers(Count(fields, "num_hidden_layers"));
  config.set_num_heads(Count(fields, "num_attention_heads"));
  config.set_sequence_length(Count(fields, "max_position_embeddings"));
  config.set_norm_epsilon(fields->Number("rms_norm_eps", family.default_norm_epsilon));
  config.set_tie_embeddings(fields->Flag("tie_word_embeddings"));
  // Zero means "the default" to ResolveModelConfig.
  for (const char* field : {"vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers",
                            "num_attention_heads", "max_position_embeddings"}) {
    fields->Require(Count(fields, field) > 0, field, "at least 1");
  }
  fields->Require(config.norm_epsilon() > 0, "rms_norm_eps", "a positive number");
  return config;
}

// Reads a configuration of any family but GPT-2; `source` begins every message.
absl::StatusOr<v1::ModelConfig> ReadLlama(const Family& family, const std::string& source,
                                          const Json& json, JsonFields* fields) {
  v1::ModelConfig config = ReadShape(family, fields);
  ReadAttention(json, family, fields, &config);
  RequireSupported(json, config, family, fields);
  if (family.model_type == kSoftMoe) {
    ReadRoutingJson(fields, config.mutable_routing());
    config.set_logit_soft_cap(fields->Number("logit_soft_cap", 0));
  } else {
    config.mutable_routing()->set_segment_length(
        std::gcd(kDefaultSegmentLength, config.sequence_length()));
  }
  if (family.model_type == kMixtral.model_type) ReadMixtral(fields, &config);
  RETURN_IF_ERROR(fields->status());
  RETURN_IF_ERROR(ReadRope(family, source, fields, &config));
  return config;
}

}  // namespace

bool IsMixtral(const v1::ModelConfig& resolved) {
  return resolved.routing().router() == v1::TOKEN_CHOICE && WhyNotMixtral(resolved).empty();
}

std::string ArchitectureOf(const v1::ModelConfig& resolved) {
  if (resolved.has_layer_mixing()) {
    return absl::StrCat(kMixedArchitecture,
                        resolved.has_label_head() ? kLabelsArchitecture : kTokensArchitecture);
  }
  std::string name(FamilyOf(resolved).architecture);
  if (!resolved.has_label_head()) return name;
  const std::string_view tokens = IsGpt2(resolved) ? "LMHeadModel" : kTokensArchitecture;
  return name.replace(name.size() - tokens.size(), tokens.size(), kLabelsArchitecture);
}

namespace {

// Returns the fields of all families but GPT-2.
nlohmann::ordered_json LlamaConfigJson(const v1::ModelConfig& resolved, DType dtype,
                                       const EndTokens& ends) {
  const Family& family = FamilyOf(resolved);
  nlohmann::ordered_json json = {{"architectures", {}},
                                 {"model_type", family.model_type},
                                 {"vocab_size", resolved.vocab_size()},
                                 {"hidden_size", resolved.d_model()},
                                 {"intermediate_size", resolved.d_ff()},
                                 {"num_hidden_layers", resolved.num_layers()},
                                 {"num_attention_heads", resolved.num_heads()},
                                 {"num_key_value_heads", HeadsOf(resolved).key_value},
                                 {"hidden_act", "silu"},
                                 {"max_position_embeddings", resolved.sequence_length()},
                                 {"initializer_range", 0.02},
                                 {"rms_norm_eps", resolved.norm_epsilon()},
                                 {"rope_theta", resolved.rope_theta()},
                                 {"rope_scaling", RopeScalingJson(resolved.rope_scaling())},
                                 {"tie_word_embeddings", resolved.tie_embeddings()},
                                 {"use_cache", true},
                                 {"bos_token_id", nullptr},
                                 {"eos_token_id", ends.eos_id},
                                 {"torch_dtype", TorchName(dtype)}};
  if (ends.start_id.has_value()) json["bos_token_id"] = *ends.start_id;
  AddFamilyFields(resolved, family, &json);
  if (family.model_type == kSoftMoe) AddRoutingJson(resolved.routing(), &json);
  if (resolved.logit_soft_cap() > 0) json["logit_soft_cap"] = resolved.logit_soft_cap();
  return json;
}

}  // namespace

std::string FormatConfigJson(const v1::ModelConfig& resolved, DType dtype, const EndTokens& ends) {
  nlohmann::ordered_json json = IsGpt2(resolved) ? Gpt2ConfigJson(resolved, TorchName(dtype), ends)
                                                 : LlamaConfigJson(resolved, dtype, ends);
  json["architectures"] = {ArchitectureOf(resolved)};
  if (resolved.has_label_head()) AddLabels(resolved.label_head(), ends.eos_id, &json);
  // Other programs ignore it.
  if (resolved.attention_mask() == v1::DOCUMENT) json["document_end"] = resolved.document_end();
  if (resolved.has_layer_mixing()) AddMixingJson(resolved, &json);
  return json.dump(2) + "\n";
}

absl::StatusOr<v1::ModelConfig> ParseConfigJson(std::string_view text,
                                                const std::filesystem::path& path) {
  ASSIGN_OR_RETURN(const Json json, ParseStrictJsonObject(text, kDeepestLevel, path));
  JsonFields fields(json, path.string());
  const Family* const family = FindFamily(LayersType(&fields));
  fields.Require(family != nullptr, "model_type",
                 "\"llama\", \"mistral\", \"mixtral\", \"qwen2\", \"qwen3\", \"gpt2\" or "
                 "\"braid_soft_moe\", or \"braid_mixed_layers\" with one of these as "
                 "layers_model_type");
  RETURN_IF_ERROR(fields.status());
  v1::ModelConfig config;
  if (family->model_type == kGpt2Type) {
    config = ReadGpt2Config(json, &fields);
  } else {
    ASSIGN_OR_RETURN(config, ReadLlama(*family, path.string(), json, &fields));
  }
  if (fields.Has("document_end")) {
    config.set_attention_mask(v1::DOCUMENT);
    config.set_document_end(Count(&fields, "document_end"));
  }
  ReadLabels(&fields, &config);
  RETURN_IF_ERROR(ReadMixingJson(path.string(), &fields, &config));
  const absl::StatusOr<v1::ModelConfig> resolved = ResolveModelConfig(config);
  if (resolved.ok()) return resolved;
  return absl::InvalidArgumentError(
      absl::StrCat(path.string(), ", read as a braid model: ", resolved.status().message()));
}

}  // namespace braid
