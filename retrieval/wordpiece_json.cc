#include "retrieval/wordpiece_json.h"

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/json_fields.h"
#include "base/status_macros.h"
#include "base/strict_json.h"

namespace braid {
namespace {

using Json = nlohmann::json;

constexpr int kWordPieceJsonDeepestLevel = 16;

absl::Status FieldError(const std::filesystem::path& path, const std::string& field,
                        const std::string& got, const std::string& expected) {
  return absl::InvalidArgumentError(
      absl::StrCat(path.string(), ": ", field, ": got ", got, ", expected ", expected));
}

// Returns the object in a field.
absl::StatusOr<const Json*> ObjectIn(const Json& json, const char* field, const char* expected,
                                     const std::filesystem::path& path) {
  const auto found = json.find(field);
  if (found != json.end() && found->is_object()) return &*found;
  return FieldError(path, field, found == json.end() ? "nothing" : "no object", expected);
}

// Reads the normalizer and returns whether it converts to lower case.
absl::StatusOr<bool> ReadNormalizer(const Json& json, const std::filesystem::path& path) {
  ASSIGN_OR_RETURN(const Json* object, ObjectIn(json, "normalizer", "a BertNormalizer", path));
  JsonFields fields(*object, path.string() + ": normalizer");
  const bool lower_case = fields.Flag("lowercase", true);
  fields.Require(fields.Text("type", "") == "BertNormalizer", "type", "\"BertNormalizer\"");
  fields.RequireOnly("clean_text", true);
  fields.RequireOnly("handle_chinese_chars", true);
  // Null means the value of lowercase.
  fields.RequireOnly("strip_accents", lower_case, " or null");
  RETURN_IF_ERROR(fields.status());
  return lower_case;
}

// Returns the pieces by id, one per line, as in a vocab.txt.
absl::StatusOr<std::string> ReadPieces(const Json& json, const std::filesystem::path& path) {
  ASSIGN_OR_RETURN(const Json* model, ObjectIn(json, "model", "a WordPiece model", path));
  JsonFields fields(*model, path.string() + ": model");
  fields.Require(fields.Text("type", "WordPiece") == "WordPiece", "type", "\"WordPiece\"");
  fields.Require(fields.Text("unk_token", "") == "[UNK]", "unk_token", "\"[UNK]\"");
  fields.RequireOnly("continuing_subword_prefix", "##");
  fields.RequireOnly("max_input_chars_per_word", 100);
  RETURN_IF_ERROR(fields.status());
  ASSIGN_OR_RETURN(const Json* vocabulary, ObjectIn(*model, "vocab", "pieces with ids", path));
  std::vector<std::string> pieces(vocabulary->size());
  for (const auto& [piece, id] : vocabulary->items()) {
    const bool known = id.is_number_unsigned() && id.get<uint64_t>() < pieces.size() &&
                       pieces[id.get<uint64_t>()].empty();
    if (!known) {
      return FieldError(path, "model: vocab: the id of \"" + piece.substr(0, 60) + "\"",
                        id.dump().substr(0, 60),
                        absl::StrCat("each id from 0 to ", pieces.size(), " - 1 once"));
    }
    if (piece.empty() || piece.find('\n') != std::string::npos || piece.ends_with('\r')) {
      return FieldError(path, "model: vocab", "an empty piece or one with a line end", "text");
    }
    pieces[id.get<uint64_t>()] = piece;
  }
  return absl::StrJoin(pieces, "\n");
}

}  // namespace

absl::StatusOr<WordPieceTokenizer> ParseWordPieceJson(std::string_view text,
                                                      const std::filesystem::path& path) {
  ASSIGN_OR_RETURN(const Json json, ParseStrictJsonObject(text, kWordPieceJsonDeepestLevel, path));
  ASSIGN_OR_RETURN(const std::string pieces, ReadPieces(json, path));
  ASSIGN_OR_RETURN(const bool lower_case, ReadNormalizer(json, path));
  ASSIGN_OR_RETURN(const Json* splitter,
                   ObjectIn(json, "pre_tokenizer", "a BertPreTokenizer", path));
  JsonFields fields(*splitter, path.string() + ": pre_tokenizer");
  fields.Require(fields.Text("type", "") == "BertPreTokenizer", "type", "\"BertPreTokenizer\"");
  RETURN_IF_ERROR(fields.status());
  ASSIGN_OR_RETURN(WordPieceVocabulary vocabulary,
                   WordPieceVocabulary::Parse(pieces, path, /*needs_ends=*/false));
  return WordPieceTokenizer(std::move(vocabulary), lower_case);
}

}  // namespace braid
