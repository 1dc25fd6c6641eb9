#include "inference/huggingface/mixing_json.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "google/protobuf/util/json_util.h"
#include "proto/message_json.h"

namespace braid {
namespace {

constexpr char kLayersType[] = "layers_model_type";
constexpr char kMixing[] = "layer_mixing";

}  // namespace

void AddMixingJson(const v1::ModelConfig& resolved, nlohmann::ordered_json* json) {
  v1::LayerMixing mixing = resolved.layer_mixing();
  mixing.clear_balance_loss();  // only training uses it
  const std::optional<std::string> text = MessageToJson(mixing);
  BRAID_CHECK(text.has_value());
  (*json)[kLayersType] = (*json)["model_type"];
  (*json)["model_type"] = kMixedType;
  (*json)[kMixing] = nlohmann::ordered_json::parse(*text);
  json->erase("auto_map");
}

std::string LayersType(JsonFields* fields) {
  const std::string type = fields->Text("model_type", "");
  return type == kMixedType ? fields->Text(kLayersType, "") : type;
}

absl::Status ReadMixingJson(const std::string& source, JsonFields* fields,
                            v1::ModelConfig* config) {
  if (fields->Text("model_type", "") != kMixedType) return fields->status();
  fields->Require(fields->Has(kMixing) && (*fields)[kMixing].is_object(), kMixing,
                  "an object with the settings of LayerMixing");
  if (!fields->status().ok()) return fields->status();
  const auto read = google::protobuf::util::JsonStringToMessage((*fields)[kMixing].dump(),
                                                                config->mutable_layer_mixing());
  if (read.ok()) return absl::OkStatus();
  // In ASCII: a foreign file may hold control characters, and a cut may divide a character.
  const std::string got =
      (*fields)[kMixing].dump(/*indent=*/-1, ' ', /*ensure_ascii=*/true).substr(0, 80);
  return absl::InvalidArgumentError(
      absl::StrCat(source, ": ", kMixing, ": got ", got,
                   ", expected the settings of LayerMixing (proto/braid/v1/model.proto): ",
                   absl::Utf8SafeCHexEscape(std::string(read.message()))));
}

}  // namespace braid
