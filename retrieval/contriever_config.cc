#include "retrieval/contriever_config.h"

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "base/atomic_file.h"
#include "base/json_fields.h"
#include "base/status_macros.h"
#include "base/strict_json.h"

namespace braid {
namespace {

using Json = nlohmann::json;

constexpr int kContrieverConfigDeepestLevel = 16;

void RequireSupported(JsonFields* fields) {
  fields->RequireOnly("model_type", "bert", " (only BERT encoders are supported)");
  fields->RequireOnly("hidden_act", "gelu", " (the form with erf)");
  fields->RequireOnly("position_embedding_type", "absolute");
  fields->RequireOnly("is_decoder", false);
  fields->RequireOnly("is_encoder_decoder", false);
  fields->RequireOnly("add_cross_attention", false);
  fields->Require(!fields->Has("quantization_config"), "quantization_config",
                  "nothing (quantized weights are not supported; save the model dequantized)");
}

int32_t Count(JsonFields* fields, const char* field, int32_t largest) {
  return static_cast<int32_t>(fields->Integer(field, {.minimum = 1, .maximum = largest}));
}

}  // namespace

absl::StatusOr<ContrieverConfig> ParseContrieverConfig(std::string_view text,
                                                       const std::filesystem::path& path) {
  ASSIGN_OR_RETURN(const Json json,
                   ParseStrictJsonObject(text, kContrieverConfigDeepestLevel, path));
  JsonFields fields(json, path.string());
  RequireSupported(&fields);
  ContrieverConfig config;
  config.vocab_size = Count(&fields, "vocab_size", 1 << 20);
  config.hidden_size = Count(&fields, "hidden_size", 1 << 16);
  config.num_hidden_layers = Count(&fields, "num_hidden_layers", 1 << 10);
  config.num_attention_heads = Count(&fields, "num_attention_heads", 1 << 10);
  config.intermediate_size = Count(&fields, "intermediate_size", 1 << 18);
  config.max_position_embeddings = Count(&fields, "max_position_embeddings", 1 << 16);
  config.type_vocab_size = Count(&fields, "type_vocab_size", 1 << 10);
  config.layer_norm_eps = fields.Number("layer_norm_eps", 1e-12);
  fields.Require(config.layer_norm_eps > 0 && config.layer_norm_eps < 1, "layer_norm_eps",
                 "a number above 0 and below 1");
  fields.Require(config.hidden_size % config.num_attention_heads == 0, "num_attention_heads",
                 absl::StrCat("a divisor of hidden_size, ", config.hidden_size));
  fields.Require(config.max_position_embeddings >= 3, "max_position_embeddings",
                 "at least 3: [CLS], a piece and [SEP]");
  RETURN_IF_ERROR(fields.status());
  return config;
}

absl::StatusOr<ContrieverConfig> ReadContrieverConfig(const std::filesystem::path& directory) {
  const std::filesystem::path path = directory / "config.json";
  ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  return ParseContrieverConfig(text, path);
}

}  // namespace braid
