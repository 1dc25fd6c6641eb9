#include "formats/added_pieces.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/status_macros.h"
#include "formats/protobuf_wire.h"
#include "formats/word_boundaries.h"

namespace braid {
namespace {

// Fields of a ModelProto and of one of its pieces, whose score is 0 by default.
constexpr uint64_t kPiecesField = 1, kPieceTextField = 1;
constexpr char kBytesTagOfField1 = 0x0A, kTypeTag = 0x18;
constexpr char kControlType = 3, kUserDefinedType = 4;

using IdsByText = absl::flat_hash_map<std::string, int64_t>;

// Returns the ids of the pieces of a model and sets their number.
absl::StatusOr<IdsByText> IdsOfPieces(std::string_view model, int64_t* num_pieces) {
  IdsByText ids;
  *num_pieces = 0;
  for (size_t position = 0; position < model.size();) {
    const std::optional<WireField> part = ReadWireField(model, &position);
    if (!part) return absl::InvalidArgumentError("the SentencePiece model is cut off");
    if (part->number != kPiecesField) continue;
    const int64_t id = (*num_pieces)++;
    for (size_t place = 0; place < part->bytes.size();) {
      const std::optional<WireField> field = ReadWireField(part->bytes, &place);
      if (!field)
        return absl::InvalidArgumentError("a piece of the SentencePiece model is cut off");
      if (field->number == kPieceTextField) ids.emplace(std::string(field->bytes), id);
    }
  }
  return ids;
}

void AppendVarint(uint64_t value, std::string* out) {
  for (; value >= 0x80; value >>= 7) *out += static_cast<char>(value | 0x80);
  *out += static_cast<char>(value);
}

// Appends field 1 of a message, which has these bytes.
void AppendField1(std::string_view bytes, std::string* out) {
  *out += kBytesTagOfField1;
  AppendVarint(bytes.size(), out);
  out->append(bytes);
}

}  // namespace

absl::StatusOr<std::string> WithAddedPieces(std::string model, std::vector<AddedPiece> tokens,
                                            const std::filesystem::path& path) {
  int64_t next_id = 0;
  ASSIGN_OR_RETURN(IdsByText ids, IdsOfPieces(model, &next_id));
  std::ranges::stable_sort(tokens, {}, &AddedPiece::id);
  for (const AddedPiece& token : tokens) {
    // Texts are searched for user-defined pieces after their spaces have been replaced.
    const std::string text =
        token.special ? token.content
                      : absl::StrReplaceAll(token.content, {{" ", std::string(kSpaceSymbol)}});
    const auto [found, is_new] = ids.emplace(text, next_id);
    if (token.id != found->second) {
      return absl::InvalidArgumentError(absl::StrCat(
          path.string(), ": added token \"", token.content, "\": got id ", token.id, ", expected ",
          found->second, is_new ? ", the next after the pieces" : ", that of the equal piece",
          "; correct added_tokens.json or added_tokens_decoder of tokenizer_config.json, or, to do "
          "without added tokens, name a copy of the file in another directory with --tokenizer"));
    }
    if (!is_new) continue;
    ++next_id;
    std::string piece;
    AppendField1(text, &piece);
    piece += {kTypeTag, token.special ? kControlType : kUserDefinedType};
    AppendField1(piece, &model);
  }
  return model;
}

}  // namespace braid
