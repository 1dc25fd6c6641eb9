#include "inference/huggingface/gpt2_config_json.h"

#include <numeric>

namespace braid {
namespace {

// What GPT2Config assumes of absent fields.
constexpr double kGpt2Epsilon = 1e-5;
constexpr int kGpt2EndToken = 50256;
constexpr int kGpt2SegmentLength = 256;

// Returns a required number, at least 1.
int32_t Extent(JsonFields* fields, const char* field) {
  return static_cast<int32_t>(fields->Integer(field, {.minimum = 1}));
}

// Rejects settings that make another function of the same weights. reorder_and_upcast_attn changes
// rounding only.
void RequireGpt2Function(JsonFields* fields) {
  const std::string activation = fields->Text("activation_function", "gelu_new");
  fields->Require(activation == "gelu_new" || activation == "gelu_pytorch_tanh",
                  "activation_function", "\"gelu_new\" (the tanh approximation of GELU)");
  fields->Require(fields->Flag("scale_attn_weights", true), "scale_attn_weights", "true");
  fields->RequireOnly("scale_attn_by_inverse_layer_idx", false,
                      ": attention that is scaled by the layer is not supported");
  fields->RequireOnly("add_cross_attention", false, ": encoders are not supported");
  fields->Require(fields->Flag("tie_word_embeddings", true), "tie_word_embeddings",
                  "true (the head of a GPT-2 is its embedding)");
  fields->Require(!fields->Has("quantization_config"), "quantization_config",
                  "nothing (quantized weights are not supported; save the model dequantized)");
}

// A text begins with the end of the one before, <|endoftext|>, unless the file has another token or
// null.
v1::StartToken Gpt2StartToken(const nlohmann::json& json) {
  const nlohmann::json begin = json.value("bos_token_id", nlohmann::json(kGpt2EndToken));
  if (begin.is_null()) return v1::START_WITH_NONE;
  const nlohmann::json end = json.value("eos_token_id", nlohmann::json(kGpt2EndToken));
  return begin == end ? v1::START_WITH_EOS : v1::START_WITH_BOS;
}

}  // namespace

nlohmann::ordered_json Gpt2ConfigJson(const v1::ModelConfig& resolved, const std::string& dtype,
                                      const EndTokens& ends) {
  nlohmann::ordered_json json = {{"architectures", {}},
                                 {"model_type", kGpt2Type},
                                 {"vocab_size", resolved.vocab_size()},
                                 {"n_positions", resolved.sequence_length()},
                                 {"n_embd", resolved.d_model()},
                                 {"n_layer", resolved.num_layers()},
                                 {"n_head", resolved.num_heads()},
                                 {"n_inner", resolved.d_ff()},
                                 {"activation_function", "gelu_new"},
                                 {"layer_norm_epsilon", resolved.norm_epsilon()},
                                 {"resid_pdrop", 0.0},
                                 {"embd_pdrop", 0.0},
                                 {"attn_pdrop", 0.0},
                                 {"initializer_range", 0.02},
                                 {"scale_attn_weights", true},
                                 {"scale_attn_by_inverse_layer_idx", false},
                                 {"reorder_and_upcast_attn", false},
                                 {"tie_word_embeddings", true},
                                 {"use_cache", true},
                                 {"bos_token_id", nullptr},
                                 {"eos_token_id", ends.eos_id},
                                 {"torch_dtype", dtype}};
  if (ends.start_id.has_value()) json["bos_token_id"] = *ends.start_id;
  return json;
}

v1::ModelConfig ReadGpt2Config(const nlohmann::json& json, JsonFields* fields) {
  v1::ModelConfig config;
  config.set_family(v1::GPT2);
  config.set_vocab_size(Extent(fields, "vocab_size"));
  config.set_sequence_length(Extent(fields, "n_positions"));
  config.set_d_model(Extent(fields, "n_embd"));
  config.set_num_layers(Extent(fields, "n_layer"));
  config.set_num_heads(Extent(fields, "n_head"));
  if (fields->Has("n_inner")) config.set_d_ff(Extent(fields, "n_inner"));
  config.set_norm_epsilon(fields->Number("layer_norm_epsilon", kGpt2Epsilon));
  fields->Require(config.norm_epsilon() > 0, "layer_norm_epsilon", "a positive number");
  RequireGpt2Function(fields);
  config.set_start_token(Gpt2StartToken(json));
  config.mutable_routing()->set_segment_length(
      std::gcd(kGpt2SegmentLength, config.sequence_length()));
  return config;
}

}  // namespace braid
