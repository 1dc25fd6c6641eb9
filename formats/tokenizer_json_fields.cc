#include "formats/tokenizer_json_fields.h"

#include "absl/strings/str_cat.h"
#include "base/utf8.h"

namespace braid {

using Json = nlohmann::json;

const Json& FieldOf(const Json& object, const char* name) {
  static const Json& null = *new Json;
  if (!object.is_object()) return null;
  const auto found = object.find(name);
  return found == object.end() ? null : *found;
}

bool IsTrue(const Json& object, const char* name) { return FieldOf(object, name) == Json(true); }

std::optional<std::string> TokenContent(const Json& token) {
  const Json& content = token.is_object() ? FieldOf(token, "content") : token;
  if (!content.is_string()) return std::nullopt;
  return content.get<std::string>();
}

absl::Status UnsupportedTokenizer(const std::string& where, const std::string& got,
                                  const std::string& expected) {
  const std::string shown = got.substr(0, Utf8PrefixLength(got, 80));
  return absl::UnimplementedError(absl::StrCat(
      where, ": got ", shown, shown.size() < got.size() ? "..." : "", ", expected ", expected,
      "; only byte-level BPE tokenizers and SentencePiece models can be used"));
}

}  // namespace braid
