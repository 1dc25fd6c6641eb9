#include "formats/sentencepiece_settings.h"

#include <cstddef>
#include <optional>

#include "absl/status/status.h"
#include "formats/protobuf_wire.h"

namespace braid {
namespace {

void ReadTrainerField(const WireField& field, SentencePieceSettings* settings) {
  if (field.number == 3) settings->model_type = field.value;
  if (field.number == 24) settings->space_is_suffix = field.value != 0;
  if (field.number == 35) settings->byte_fallback = field.value != 0;
}

void ReadNormalizerField(const WireField& field, SentencePieceSettings* settings) {
  if (field.number == 2) settings->rewrites_text = !field.bytes.empty();
  if (field.number == 3) settings->adds_dummy_space = field.value != 0;
  if (field.number == 4) settings->removes_extra_spaces = field.value != 0;
  if (field.number == 5) settings->escapes_spaces = field.value != 0;
}

// Returns the type of a piece; nullopt if it is cut off.
std::optional<uint64_t> TypeOfPiece(std::string_view piece) {
  uint64_t type = 1;  // normal
  for (size_t place = 0; place < piece.size();) {
    const std::optional<WireField> field = ReadWireField(piece, &place);
    if (!field) return std::nullopt;
    if (field->number == 3) type = field->value;
  }
  return type;
}

}  // namespace

absl::StatusOr<SentencePieceSettings> ReadSentencePieceSettings(std::string_view model) {
  constexpr uint64_t kPieces = 1, kTrainerSpec = 2, kNormalizerSpec = 3;
  constexpr uint64_t kUnknown = 2;
  SentencePieceSettings settings;
  int32_t num_pieces = 0;
  for (size_t position = 0; position < model.size();) {
    const std::optional<WireField> part = ReadWireField(model, &position);
    if (!part) return absl::InvalidArgumentError("the SentencePiece model is cut off");
    if (part->number == kPieces) {
      const std::optional<uint64_t> type = TypeOfPiece(part->bytes);
      if (!type) return absl::InvalidArgumentError("a piece of the SentencePiece model is cut off");
      if (*type == kUnknown) settings.unknown_id = num_pieces;
      ++num_pieces;
    }
    if (part->number != kTrainerSpec && part->number != kNormalizerSpec) continue;
    for (size_t place = 0; place < part->bytes.size();) {
      const std::optional<WireField> field = ReadWireField(part->bytes, &place);
      if (!field) return absl::InvalidArgumentError("the SentencePiece model is cut off");
      if (part->number == kTrainerSpec) ReadTrainerField(*field, &settings);
      if (part->number == kNormalizerSpec) ReadNormalizerField(*field, &settings);
    }
  }
  return settings;
}

}  // namespace braid
