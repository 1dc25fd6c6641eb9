#include "retrieval/contriever_config.h"

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "base/atomic_file.h"
#include "base/status_macros.h"
#include "base/strict_json.h"

namespace braid {
namespace {

using Json = nlohmann::json;

constexpr int kContrieverConfigDeepestLevel = 16;

// Reads fields of an object; the first problem is kept.
class Fields {
 public:
  Fields(const Json& object, std::string path) : object_(object), path_(std::move(path)) {}

  int32_t Count(const char* field, int32_t largest) {
    const bool good = Has(field) && object_[field].is_number_integer() && object_[field] >= 1 &&
                      object_[field] <= largest;
    if (good) return object_[field].get<int32_t>();
    Refuse(field, absl::StrCat("a whole number from 1 to ", largest));
    return 1;
  }

  double Positive(const char* field, double fallback) {
    if (!Has(field)) return fallback;
    const bool good = object_[field].is_number() && object_[field] > 0 && object_[field] < 1;
    if (good) return object_[field].get<double>();
    Refuse(field, "a number above 0 and below 1");
    return fallback;
  }

  // A field that may be absent, or null, but has no other value than `only`.
  void RequireOnly(const char* field, const Json& only, const char* why = "") {
    if (Has(field) && object_[field] != only) Refuse(field, absl::StrCat(only.dump(), why));
  }

  void RequireAbsent(const char* field, const char* why) {
    if (Has(field)) Refuse(field, absl::StrCat("nothing", why));
  }

  void Require(bool good, const char* field, const std::string& expected) {
    if (!good) Refuse(field, expected);
  }

  const absl::Status& status() const { return status_; }

 private:
  bool Has(const char* field) const { return object_.contains(field) && !object_[field].is_null(); }

  void Refuse(const char* field, const std::string& expected) {
    if (!status_.ok()) return;
    const std::string got =
        object_.contains(field) ? object_[field].dump(-1, ' ', true) : "nothing";
    status_ = absl::InvalidArgumentError(
        absl::StrCat(path_, ": ", field, ": got ", got, ", expected ", expected));
  }

  const Json& object_;
  std::string path_;
  absl::Status status_;
};

void RequireSupported(Fields* fields) {
  fields->RequireOnly("model_type", "bert", " (only BERT encoders are supported)");
  fields->RequireOnly("hidden_act", "gelu", " (the form with erf)");
  fields->RequireOnly("position_embedding_type", "absolute");
  fields->RequireOnly("is_decoder", false);
  fields->RequireOnly("is_encoder_decoder", false);
  fields->RequireOnly("add_cross_attention", false);
  fields->RequireAbsent("quantization_config",
                        " (quantised weights are not supported; save the model dequantised)");
}

}  // namespace

absl::StatusOr<ContrieverConfig> ParseContrieverConfig(std::string_view text,
                                                       const std::filesystem::path& path) {
  const absl::StatusOr<Json> json = ParseStrictJson(text, kContrieverConfigDeepestLevel);
  if (!json.ok() || !json->is_object()) {
    return absl::InvalidArgumentError(absl::StrCat(
        path.string(), ": ", json.ok() ? "not a JSON object" : json.status().message()));
  }
  Fields fields(*json, path.string());
  RequireSupported(&fields);
  ContrieverConfig config;
  config.vocab_size = fields.Count("vocab_size", 1 << 20);
  config.hidden_size = fields.Count("hidden_size", 1 << 16);
  config.num_hidden_layers = fields.Count("num_hidden_layers", 1 << 10);
  config.num_attention_heads = fields.Count("num_attention_heads", 1 << 10);
  config.intermediate_size = fields.Count("intermediate_size", 1 << 18);
  config.max_position_embeddings = fields.Count("max_position_embeddings", 1 << 16);
  config.type_vocab_size = fields.Count("type_vocab_size", 1 << 10);
  config.layer_norm_eps = fields.Positive("layer_norm_eps", 1e-12);
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
