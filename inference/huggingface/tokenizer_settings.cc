#include "inference/huggingface/tokenizer_settings.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/atomic_file.h"
#include "base/status_macros.h"
#include "base/strict_json.h"
#include "formats/sentencepiece_json.h"
#include "formats/tokenizer_json_fields.h"
#include "inference/huggingface/chat_jinja.h"

namespace braid {
namespace {

using Json = nlohmann::json;

// Reads tokenizer_config.json; null when there is none.
absl::StatusOr<Json> ReadTokenizerConfig(const std::filesystem::path& tokenizer) {
  const std::filesystem::path path = tokenizer.parent_path() / kTokenizerConfigFile;
  const absl::StatusOr<std::string> text = ReadFile(path);
  if (absl::IsNotFound(text.status())) return Json();
  RETURN_IF_ERROR(text.status());
  return ParseStrictJsonObject(*text, kTokenizerJsonDeepestLevel, path);
}

// Returns the token that a post-processor of tokenizer.json puts before a text.
std::optional<std::string> TokenBeforeText(const Json& processor) {
  for (const Json& part : FieldOf(processor, "processors")) {
    if (std::optional<std::string> token = TokenBeforeText(part)) return token;
  }
  const Json& single = FieldOf(processor, "single");
  if (!single.is_array() || single.empty()) return std::nullopt;
  return TokenContent(FieldOf(FieldOf(single[0], "SpecialToken"), "id"));
}

// Returns the text of the field chat_template; nullopt without one.
std::optional<std::string> JinjaOf(const Json& field) {
  if (field.is_string() && field.get<std::string>().empty()) return std::nullopt;
  if (field.is_string()) return field.get<std::string>();
  if (!field.is_array() || field.empty()) return std::nullopt;
  for (const Json& named : field) {
    const Json& text = FieldOf(named, "template");
    if (FieldOf(named, "name") == Json("default") && text.is_string()) {
      return text.get<std::string>();
    }
  }
  return "";  // templates for other purposes
}

// Returns the Jinja text of the chat template beside `tokenizer`; nullopt without one.
absl::StatusOr<std::optional<std::string>> ReadChatJinja(const std::filesystem::path& tokenizer) {
  absl::StatusOr<std::string> text = ReadFile(tokenizer.parent_path() / "chat_template.jinja");
  if (text.ok()) return *std::move(text);
  if (!absl::IsNotFound(text.status())) return text.status();
  ASSIGN_OR_RETURN(const Json config, ReadTokenizerConfig(tokenizer));
  return JinjaOf(FieldOf(config, "chat_template"));
}

}  // namespace

absl::StatusOr<v1::StartToken> StartTokenOf(const TokenizerFile& file, const Tokenizer& parsed) {
  ASSIGN_OR_RETURN(const Json config, ReadTokenizerConfig(file.path));
  const Json& stated = FieldOf(config, "add_bos_token");
  if (stated == Json(false)) return v1::START_WITH_NONE;
  const bool named_eos =
      TokenContent(FieldOf(config, "bos_token")) == parsed.Piece(parsed.eos_id());
  if (named_eos && stated == Json(true)) return v1::START_WITH_EOS;
  if (parsed.bos_id() < 0) return v1::START_WITH_NONE;
  if (stated == Json(true) || !file.bytes.starts_with('{')) return v1::START_WITH_BOS;
  ASSIGN_OR_RETURN(const Json json,
                   ParseStrictJsonObject(file.bytes, kTokenizerJsonDeepestLevel, file.path));
  const auto first = TokenBeforeText(FieldOf(json, "post_processor"));
  if (first != parsed.Piece(parsed.bos_id())) return v1::START_WITH_NONE;
  return parsed.bos_id() == parsed.eos_id() ? v1::START_WITH_EOS : v1::START_WITH_BOS;
}

std::string WithStartToken(std::string_view tokenizer_json, const Tokenizer& parsed,
                           std::optional<int32_t> start_id) {
  auto root = nlohmann::ordered_json::parse(tokenizer_json);
  const auto stated = root.find("post_processor");
  std::optional<std::string> start;
  if (start_id.has_value()) start = parsed.Piece(*start_id);
  if (TokenBeforeText(stated == root.end() ? Json() : Json(*stated)) == start) return root.dump();
  root["post_processor"] = nullptr;
  if (start.has_value()) root["post_processor"] = StartProcessor(*start, *start_id);
  return root.dump();
}

absl::StatusOr<FoundChatTemplate> ChatTemplateOf(const TokenizerFile& file, const Tokenizer& parsed,
                                                 std::optional<int32_t> start_id) {
  ASSIGN_OR_RETURN(const std::optional<std::string> jinja, ReadChatJinja(file.path));
  if (!jinja) return FoundChatTemplate();
  const std::optional<std::string> name = ChatTemplateOfJinja(*jinja, parsed, start_id);
  return FoundChatTemplate{.name = name.value_or(""), .unknown = !name.has_value()};
}

}  // namespace braid
