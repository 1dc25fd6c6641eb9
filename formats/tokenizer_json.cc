#include "formats/tokenizer_json.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/strict_json.h"
#include "formats/tokenizer_json_fields.h"

namespace braid {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr int64_t kMostTokens = 4'000'000;

absl::Status Malformed(const std::string& where, const std::string& expected) {
  return absl::InvalidArgumentError(absl::StrCat(where, ": expected ", expected));
}

std::string TypeOf(const Json& component) {
  const Json& type = FieldOf(component, "type");
  return type.is_string() ? type.get<std::string>() : std::string();
}

// Requires that each of `names` is absent, null, false, zero or an empty string. Messages name it
// after `prefix`.
absl::Status RequireUnset(const Json& object, std::initializer_list<const char*> names,
                          const std::string& prefix) {
  for (const char* name : names) {
    const Json& value = FieldOf(object, name);
    const bool unset = value.is_null() || value == Json(false) || value == Json("") ||
                       (value.is_number() && value == 0);
    if (!unset) return UnsupportedTokenizer(absl::StrCat(prefix, name), value.dump(), "it unset");
  }
  return absl::OkStatus();
}

absl::Status AddSplit(const Json& split, const std::string& where, PieceScanner* scanner) {
  const Json& regex = FieldOf(FieldOf(split, "pattern"), "Regex");
  if (!regex.is_string()) {
    return UnsupportedTokenizer(absl::StrCat(where, ".pattern"), FieldOf(split, "pattern").dump(),
                                "{\"Regex\": \"...\"}");
  }
  const Json& behavior = FieldOf(split, "behavior");
  const bool inverted = IsTrue(split, "invert");
  // Removing all that does not match is the same as isolating matches if all text matches.
  const bool matches = behavior == Json("Isolated") ||
                       (behavior == Json("Removed") && inverted &&
                        PieceScanner::MatchesAllText(regex.get_ref<const std::string&>()));
  if (!matches) {
    return UnsupportedTokenizer(absl::StrCat(where, ".behavior"), behavior.dump(), "\"Isolated\"");
  }
  const absl::Status added = scanner->AddExpression(regex.get_ref<const std::string&>());
  if (added.ok()) return added;
  // Escaped: an expression may hold control characters.
  return UnsupportedTokenizer(absl::StrCat(where, ".pattern"),
                              absl::Utf8SafeCHexEscape(std::string(added.message())),
                              "an expression with one meaning");
}

// `bytes`: set when a ByteLevel component, which maps bytes to characters, has been seen.
absl::Status AddPreTokenizer(const Json& component, const std::string& where, PieceScanner* scanner,
                             bool* bytes) {
  const std::string type = TypeOf(component);
  if (*bytes) {
    return UnsupportedTokenizer(where, absl::StrCat(type, " after ByteLevel"), "ByteLevel last");
  }
  if (type == "Sequence") {
    const Json& parts = FieldOf(component, "pretokenizers");
    if (!parts.is_array() || parts.size() > 16) return Malformed(where, "a list of pretokenizers");
    for (size_t i = 0; i < parts.size(); ++i) {
      RETURN_IF_ERROR(AddPreTokenizer(parts[i], absl::StrCat(where, ".pretokenizers[", i, "]"),
                                      scanner, bytes));
    }
    return absl::OkStatus();
  }
  if (type == "Split") return AddSplit(component, where, scanner);
  if (type == "Digits") {
    scanner->AddDigits(IsTrue(component, "individual_digits"));
    return absl::OkStatus();
  }
  if (type != "ByteLevel") {
    return UnsupportedTokenizer(where, type.empty() ? component.dump() : type,
                                "ByteLevel, Split, Digits or a Sequence of them");
  }
  RETURN_IF_ERROR(RequireUnset(component, {"add_prefix_space"}, where + "."));
  *bytes = true;
  if (FieldOf(component, "use_regex") == Json(false)) return absl::OkStatus();
  return scanner->AddExpression(
      R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)");
}

absl::Status ParsePreTokenizer(const Json& root, const std::string& file, TokenizerJson* result) {
  bool bytes = false;
  RETURN_IF_ERROR(AddPreTokenizer(FieldOf(root, "pre_tokenizer"),
                                  absl::StrCat(file, ": pre_tokenizer"), &result->scanner, &bytes));
  if (bytes) return absl::OkStatus();
  return UnsupportedTokenizer(absl::StrCat(file, ": pre_tokenizer"), "no ByteLevel", "one");
}

absl::Status AddNormalizer(const Json& normalizer, const std::string& where,
                           std::vector<NormalForm>* forms) {
  static constexpr std::array<std::pair<std::string_view, NormalForm>, 4> kForms = {
      {{"NFC", NormalForm::kNfc},
       {"NFD", NormalForm::kNfd},
       {"NFKC", NormalForm::kNfkc},
       {"NFKD", NormalForm::kNfkd}}};
  const std::string type = TypeOf(normalizer);
  if (type == "Sequence") {
    const Json& parts = FieldOf(normalizer, "normalizers");
    if (!parts.is_array() || parts.size() > 16) return Malformed(where, "a list of normalizers");
    for (size_t i = 0; i < parts.size(); ++i) {
      RETURN_IF_ERROR(AddNormalizer(parts[i], absl::StrCat(where, ".normalizers[", i, "]"), forms));
    }
    return absl::OkStatus();
  }
  for (const auto& [name, form] : kForms) {
    if (type != name) continue;
    forms->push_back(form);
    return absl::OkStatus();
  }
  return UnsupportedTokenizer(where, type.empty() ? normalizer.dump() : type,
                              "none, NFC, NFD, NFKC, NFKD or a Sequence of them");
}

absl::Status ParseNormalizer(const Json& root, const std::string& file, TokenizerJson* result) {
  const Json& normalizer = FieldOf(root, "normalizer");
  if (normalizer.is_null()) return absl::OkStatus();
  return AddNormalizer(normalizer, absl::StrCat(file, ": normalizer"), &result->normal_forms);
}

// Stores a piece under its id, which must be free or have the same piece.
absl::Status PlacePiece(const std::string& piece, const Json& id, const std::string& where,
                        std::vector<std::string>* pieces) {
  if (!id.is_number_unsigned() || id >= kMostTokens) {
    return Malformed(where, absl::StrCat("a token id from 0 to ", kMostTokens - 1));
  }
  const auto index = id.get<size_t>();
  if (index >= pieces->size()) pieces->resize(index + 1);
  std::string& place = (*pieces)[index];
  if (!place.empty() && place != piece) {
    return Malformed(where,
                     absl::StrCat("another id than ", index, ", which is that of \"", place, "\""));
  }
  place = piece;
  return absl::OkStatus();
}

absl::Status ParseMerges(const Json& merges, const std::string& where, TokenizerJson* result) {
  if (!merges.is_array()) return Malformed(where, "a list");
  result->merges.reserve(merges.size());
  for (size_t i = 0; i < merges.size(); ++i) {
    const Json& merge = merges[i];
    if (merge.is_string()) {
      const auto& text = merge.get_ref<const std::string&>();
      const size_t space = text.find(' ');
      if (space != std::string::npos && text.find(' ', space + 1) == std::string::npos) {
        result->merges.emplace_back(text.substr(0, space), text.substr(space + 1));
        continue;
      }
    } else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() &&
               merge[1].is_string()) {
      result->merges.emplace_back(merge[0].get<std::string>(), merge[1].get<std::string>());
      continue;
    }
    return Malformed(absl::StrCat(where, "[", i, "]"), "two pieces, \"a b\" or [\"a\", \"b\"]");
  }
  return absl::OkStatus();
}

absl::Status ParseModel(const Json& root, const std::string& file, TokenizerJson* result) {
  const Json& model = FieldOf(root, "model");
  const std::string where = absl::StrCat(file, ": model");
  // Files of older versions of the library have no type.
  const bool bpe = TypeOf(model) == "BPE" ||
                   (TypeOf(model).empty() && model.is_object() && model.contains("merges"));
  if (!bpe) {
    return UnsupportedTokenizer(where, TypeOf(model).empty() ? "no type" : TypeOf(model), "BPE");
  }
  RETURN_IF_ERROR(RequireUnset(
      model,
      {"dropout", "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk", "byte_fallback"},
      where + "."));
  result->ignore_merges = IsTrue(model, "ignore_merges");
  const Json& vocab = FieldOf(model, "vocab");
  if (!vocab.is_object() || vocab.empty()) return Malformed(where + ".vocab", "pieces and ids");
  for (const auto& [piece, id] : vocab.items()) {
    RETURN_IF_ERROR(
        PlacePiece(piece, id, absl::StrCat(where, ".vocab[\"", piece, "\"]"), &result->pieces));
  }
  return ParseMerges(FieldOf(model, "merges"), where + ".merges", result);
}

absl::Status ParseAddedTokens(const Json& root, const std::string& file, TokenizerJson* result) {
  const Json& tokens = FieldOf(root, "added_tokens");
  if (tokens.is_null()) return absl::OkStatus();
  if (!tokens.is_array()) return Malformed(file + ": added_tokens", "a list");
  for (size_t i = 0; i < tokens.size(); ++i) {
    const std::string where = absl::StrCat(file, ": added_tokens[", i, "]");
    const Json& content = FieldOf(tokens[i], "content");
    if (!content.is_string() || content == Json("")) return Malformed(where + ".content", "text");
    AddedToken token{.content = content.get<std::string>(),
                     .special = IsTrue(tokens[i], "special"),
                     .normalized = IsTrue(tokens[i], "normalized")};
    // Special tokens are never matched in text, so these options have no effect.
    if (!token.special) {
      RETURN_IF_ERROR(RequireUnset(tokens[i], {"single_word", "lstrip", "rstrip"}, where + "."));
    }
    RETURN_IF_ERROR(PlacePiece(token.content, FieldOf(tokens[i], "id"), where, &result->pieces));
    token.id = FieldOf(tokens[i], "id").get<int32_t>();
    result->added_tokens.push_back(std::move(token));
  }
  return absl::OkStatus();
}

template <size_t size>
std::optional<std::string> ChooseToken(const Json& named,
                                       const std::array<const char*, size>& known,
                                       const std::vector<std::string>& pieces) {
  if (std::optional<std::string> content = TokenContent(named)) return content;
  const std::set<std::string_view> all(pieces.begin(), pieces.end());
  for (const char* content : known) {
    if (all.contains(content)) return content;
  }
  return std::nullopt;
}

}  // namespace

absl::StatusOr<TokenizerJson> ParseTokenizerJson(std::string_view text, const fs::path& path) {
  ASSIGN_OR_RETURN(const Json root, ParseStrictJsonObject(text, kTokenizerJsonDeepestLevel, path));
  const std::string file = path.string();
  TokenizerJson result;
  RETURN_IF_ERROR(ParseModel(root, file, &result));
  RETURN_IF_ERROR(ParseNormalizer(root, file, &result));
  RETURN_IF_ERROR(ParsePreTokenizer(root, file, &result));
  RETURN_IF_ERROR(ParseAddedTokens(root, file, &result));
  RETURN_IF_ERROR(RequireUnset(root, {"truncation", "padding"}, file + ": "));
  if (const std::string decoder = TypeOf(FieldOf(root, "decoder"));
      !FieldOf(root, "decoder").is_null() && decoder != "ByteLevel") {
    return UnsupportedTokenizer(file + ": decoder", decoder.empty() ? "no type" : decoder,
                                "ByteLevel");
  }
  const Json& named = FieldOf(root, kBraidField);
  result.eos = ChooseToken(FieldOf(named, "eos_token"), kKnownEos, result.pieces);
  result.bos = ChooseToken(FieldOf(named, "bos_token"), kKnownBos, result.pieces);
  return result;
}

}  // namespace braid
