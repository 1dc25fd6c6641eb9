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

}  // namespace

absl::StatusOr<SentencePieceSettings> ReadSentencePieceSettings(std::string_view model) {
  constexpr uint64_t kTrainerSpec = 2, kNormalizerSpec = 3;
  SentencePieceSettings settings;
  for (size_t position = 0; position < model.size();) {
    const std::optional<WireField> part = ReadWireField(model, &position);
    if (!part) return absl::InvalidArgumentError("the SentencePiece model is cut off");
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
