#include "inference/huggingface/config_json.h"

#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/json_fields.h"
#include "base/status_macros.h"
#include "base/strict_json.h"
#include "model/config/model_config.h"

namespace braid {
namespace {

using Json = nlohmann::json;

constexpr char kLlama[] = "llama";
constexpr char kSoftMoe[] = "braid_soft_moe";
constexpr int kDeepestLevel = 16;
// LLaMA's defaults for fields that old configurations omit.
constexpr double kDefaultRopeTheta = 10000;
constexpr double kDefaultNormEpsilon = 1e-6;
constexpr int kDefaultSegmentLength = 256;

bool IsDense(const v1::ModelConfig& config) { return config.routing().router() == v1::DENSE; }

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

// Training settings, such as noise, are not part of an exported model.
void AddTokenRouting(const v1::TokenRouting& token, nlohmann::ordered_json* json) {
  (*json)["gate"] = v1::TokenRouting::Gate_Name(token.gate());
  (*json)["combine_weights"] = v1::TokenRouting::CombineWeights_Name(token.combine_weights());
  (*json)["selection"] = v1::TokenRouting::Selection_Name(token.selection());
  (*json)["num_experts_per_tok"] = token.active_experts();
  (*json)["moe_intermediate_size"] = token.expert_d_ff();
}

void AddRouting(const v1::RoutingConfig& routing, nlohmann::ordered_json* json) {
  (*json)["router"] = v1::Router_Name(routing.router());
  (*json)["num_experts"] = routing.num_experts();
  (*json)["segment_length"] = routing.segment_length();
  (*json)["first_segment"] = v1::FirstSegment_Name(routing.first_segment());
  (*json)["router_input"] = v1::RouterInput_Name(routing.router_input());
  if (routing.router() == v1::TOKEN_CHOICE) AddTokenRouting(routing.token(), json);
  if (routing.moe_layers().empty()) return;
  (*json)["moe_layers"] =
      std::vector<int32_t>(routing.moe_layers().begin(), routing.moe_layers().end());
}

// Zero is left to the callers, for which it may mean "the default".
int32_t Count(JsonFields* fields, const char* field,
              std::optional<int64_t> fallback = std::nullopt) {
  return static_cast<int32_t>(
      fields->Integer(field, {.minimum = 0, .maximum = INT32_MAX, .fallback = fallback}));
}

// transformers 5 moved rope_theta and rope_scaling into one object.
double RopeTheta(JsonFields* fields) {
  fields->Require(!fields->Has("rope_scaling"), "rope_scaling",
                  "null (scaled rotary embeddings are not supported)");
  if (!fields->Has("rope_parameters")) return fields->Number("rope_theta", kDefaultRopeTheta);
  const Json& rope = (*fields)["rope_parameters"];
  const bool plain = rope.is_object() && rope.value("rope_type", Json("default")) == "default" &&
                     rope.contains("rope_theta") && rope["rope_theta"].is_number();
  fields->Require(plain, "rope_parameters", R"({"rope_type": "default", "rope_theta": ...})");
  return plain ? rope["rope_theta"].get<double>() : kDefaultRopeTheta;
}

// Rejects settings of LLaMA configurations that braid does not implement.
void RequireSupported(const v1::ModelConfig& config, JsonFields* fields) {
  const int32_t heads = config.num_heads();
  fields->Require(Count(fields, "num_key_value_heads", heads) == heads, "num_key_value_heads",
                  absl::StrCat(heads,
                               ", as many as num_attention_heads (grouped-query attention "
                               "is not supported)"));
  const int32_t width = heads > 0 ? config.d_model() / heads : 0;
  fields->Require(Count(fields, "head_dim", width) == width, "head_dim",
                  absl::StrCat("hidden_size / num_attention_heads = ", width));
  fields->Require(fields->Text("hidden_act", "silu") == "silu", "hidden_act", "\"silu\"");
  fields->Require(!fields->Flag("attention_bias"), "attention_bias",
                  "false (biases are not supported)");
  fields->Require(!fields->Flag("mlp_bias"), "mlp_bias", "false (biases are not supported)");
  fields->Require(!fields->Has("quantization_config"), "quantization_config",
                  "nothing (quantized weights are not supported; save the model dequantized)");
  fields->Require(fields->Number("partial_rotary_factor", 1) == 1, "partial_rotary_factor", "1");
}

template <class Enum>
Enum Named(JsonFields* fields, const char* field, bool (*parse)(const std::string&, Enum*),
           const std::string& (*name)(Enum), Enum fallback) {
  Enum value = fallback;
  const std::string text = fields->Text(field, name(fallback));
  fields->Require(parse(text, &value), field, absl::StrCat("a name such as ", name(fallback)));
  return value;
}

void ReadTokenRouting(JsonFields* fields, v1::TokenRouting* token) {
  const auto parse_gate = [](const std::string& text, v1::TokenRouting::Gate* value) {
    return v1::TokenRouting::Gate_Parse(text, value);
  };
  const auto parse_weights = [](const std::string& text, v1::TokenRouting::CombineWeights* value) {
    return v1::TokenRouting::CombineWeights_Parse(text, value);
  };
  const auto parse_selection = [](const std::string& text, v1::TokenRouting::Selection* value) {
    return v1::TokenRouting::Selection_Parse(text, value);
  };
  token->set_gate(Named<v1::TokenRouting::Gate>(fields, "gate", parse_gate,
                                                v1::TokenRouting_Gate_Name<v1::TokenRouting::Gate>,
                                                v1::TokenRouting::LINEAR));
  token->set_combine_weights(Named<v1::TokenRouting::CombineWeights>(
      fields, "combine_weights", parse_weights,
      v1::TokenRouting_CombineWeights_Name<v1::TokenRouting::CombineWeights>,
      v1::TokenRouting::SOFTMAX_OF_CHOSEN));
  token->set_selection(Named<v1::TokenRouting::Selection>(
      fields, "selection", parse_selection,
      v1::TokenRouting_Selection_Name<v1::TokenRouting::Selection>, v1::TokenRouting::TOP));
  token->set_active_experts(Count(fields, "num_experts_per_tok"));
  token->set_expert_d_ff(Count(fields, "moe_intermediate_size"));
}

void ReadRouting(JsonFields* fields, v1::RoutingConfig* routing) {
  routing->set_num_experts(Count(fields, "num_experts"));
  routing->set_segment_length(Count(fields, "segment_length"));
  const auto parse_router = [](const std::string& text, v1::Router* value) {
    return v1::Router_Parse(text, value);
  };
  const auto parse_first = [](const std::string& text, v1::FirstSegment* value) {
    return v1::FirstSegment_Parse(text, value);
  };
  const auto parse_input = [](const std::string& text, v1::RouterInput* value) {
    return v1::RouterInput_Parse(text, value);
  };
  routing->set_router(Named<v1::Router>(fields, "router", parse_router, v1::Router_Name<v1::Router>,
                                        v1::CAUSAL_SEGMENT));
  routing->set_first_segment(Named<v1::FirstSegment>(fields, "first_segment", parse_first,
                                                     v1::FirstSegment_Name<v1::FirstSegment>,
                                                     v1::SELF_STOP_GRADIENT));
  routing->set_router_input(Named<v1::RouterInput>(fields, "router_input", parse_input,
                                                   v1::RouterInput_Name<v1::RouterInput>,
                                                   v1::NORMALIZED_MEAN));
  if (routing->router() == v1::TOKEN_CHOICE) ReadTokenRouting(fields, routing->mutable_token());
  if (!fields->Has("moe_layers")) return;
  for (const Json& layer : (*fields)["moe_layers"]) {
    const bool good = layer.is_number_integer() && layer >= 0 && layer <= INT32_MAX;
    fields->Require(good, "moe_layers", "a list of layer numbers");
    if (good) routing->add_moe_layers(layer.get<int32_t>());
  }
}

v1::ModelConfig ReadShape(JsonFields* fields) {
  v1::ModelConfig config;
  config.set_vocab_size(Count(fields, "vocab_size"));
  config.set_d_model(Count(fields, "hidden_size"));
  config.set_d_ff(Count(fields, "intermediate_size"));
  config.set_num_layers(Count(fields, "num_hidden_layers"));
  config.set_num_heads(Count(fields, "num_attention_heads"));
  config.set_sequence_length(Count(fields, "max_position_embeddings"));
  config.set_norm_epsilon(fields->Number("rms_norm_eps", kDefaultNormEpsilon));
  config.set_tie_embeddings(fields->Flag("tie_word_embeddings"));
  // Zero means "the default" to ResolveModelConfig.
  for (const char* field : {"vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers",
                            "num_attention_heads", "max_position_embeddings"}) {
    fields->Require(Count(fields, field) > 0, field, "at least 1");
  }
  fields->Require(config.norm_epsilon() > 0, "rms_norm_eps", "a positive number");
  return config;
}

}  // namespace

std::string ArchitectureOf(const v1::ModelConfig& resolved) {
  return IsDense(resolved) ? "LlamaForCausalLM" : "BraidSoftMoeForCausalLM";
}

std::string FormatConfigJson(const v1::ModelConfig& resolved, DType dtype, int32_t eos_id) {
  nlohmann::ordered_json json = {{"architectures", {ArchitectureOf(resolved)}},
                                 {"model_type", IsDense(resolved) ? kLlama : kSoftMoe},
                                 {"vocab_size", resolved.vocab_size()},
                                 {"hidden_size", resolved.d_model()},
                                 {"intermediate_size", resolved.d_ff()},
                                 {"num_hidden_layers", resolved.num_layers()},
                                 {"num_attention_heads", resolved.num_heads()},
                                 {"num_key_value_heads", resolved.num_heads()},
                                 {"hidden_act", "silu"},
                                 {"max_position_embeddings", resolved.sequence_length()},
                                 {"initializer_range", 0.02},
                                 {"rms_norm_eps", resolved.norm_epsilon()},
                                 {"rope_theta", resolved.rope_theta()},
                                 {"rope_scaling", nullptr},
                                 {"attention_bias", false},
                                 {"mlp_bias", false},
                                 {"tie_word_embeddings", resolved.tie_embeddings()},
                                 {"use_cache", true},
                                 {"bos_token_id", eos_id},
                                 {"eos_token_id", eos_id},
                                 {"torch_dtype", TorchName(dtype)}};
  if (!IsDense(resolved)) AddRouting(resolved.routing(), &json);
  return json.dump(2) + "\n";
}

absl::StatusOr<v1::ModelConfig> ParseConfigJson(std::string_view text,
                                                const std::filesystem::path& path) {
  ASSIGN_OR_RETURN(const Json json, ParseStrictJsonObject(text, kDeepestLevel, path));
  JsonFields fields(json, path.string());
  const std::string type = fields.Text("model_type", "");
  fields.Require(type == kLlama || type == kSoftMoe, "model_type",
                 absl::StrCat("\"", kLlama, "\" or \"", kSoftMoe, "\""));
  RETURN_IF_ERROR(fields.status());
  v1::ModelConfig config = ReadShape(&fields);
  config.set_rope_theta(RopeTheta(&fields));
  fields.Require(config.rope_theta() > 0, "rope_theta", "a positive number");
  RequireSupported(config, &fields);
  if (type == kSoftMoe) {
    ReadRouting(&fields, config.mutable_routing());
  } else {
    config.mutable_routing()->set_segment_length(
        std::gcd(kDefaultSegmentLength, config.sequence_length()));
  }
  RETURN_IF_ERROR(fields.status());
  const absl::StatusOr<v1::ModelConfig> resolved = ResolveModelConfig(config);
  if (resolved.ok()) return resolved;
  return absl::InvalidArgumentError(
      absl::StrCat(path.string(), ", read as a braid model: ", resolved.status().message()));
}

}  // namespace braid
