#include "formats/word_boundaries.h"

#include <cstddef>
#include <cstdint>
#include <optional>

#include "formats/protobuf_wire.h"

namespace braid {
namespace {

constexpr std::string_view kSpaceSymbol = "\xE2\x96\x81";
constexpr std::string_view kLineMarks = "\n\t\r";

// What the settings of a model say, with SentencePiece's defaults.
struct Settings {
  uint64_t model_type = 1;  // unigram
  bool byte_fallback = false;
  bool space_is_suffix = false;
  bool rewrites_text = false;
  bool adds_dummy_space = true;
  bool removes_extra_spaces = true;
  bool escapes_spaces = true;
};

// Calls visit(field) for every field; false when the message is cut short.
template <class Visit>
bool VisitFields(std::string_view message, Visit visit) {
  for (size_t position = 0; position < message.size();) {
    const std::optional<WireField> field = ReadWireField(message, &position);
    if (!field) return false;
    visit(*field);
  }
  return true;
}

bool ReadTrainerSpec(std::string_view message, Settings* settings) {
  return VisitFields(message, [&](const WireField& field) {
    if (field.number == 3) settings->model_type = field.value;
    if (field.number == 24) settings->space_is_suffix = field.value != 0;
    if (field.number == 35) settings->byte_fallback = field.value != 0;
  });
}

bool ReadNormalizerSpec(std::string_view message, Settings* settings) {
  return VisitFields(message, [&](const WireField& field) {
    if (field.number == 2) settings->rewrites_text = !field.bytes.empty();
    if (field.number == 3) settings->adds_dummy_space = field.value != 0;
    if (field.number == 4) settings->removes_extra_spaces = field.value != 0;
    if (field.number == 5) settings->escapes_spaces = field.value != 0;
  });
}

bool Allows(const Settings& settings) {
  constexpr uint64_t kBpe = 2;
  return settings.model_type == kBpe && settings.byte_fallback && !settings.space_is_suffix &&
         !settings.rewrites_text && settings.adds_dummy_space && !settings.removes_extra_spaces &&
         settings.escapes_spaces;
}

// What is known of the pieces read so far.
struct Pieces {
  int32_t count = 0;
  int32_t space_token = -1;
  bool space_inside = false;     // one has a space behind another character
  bool joins_line_mark = false;  // one of several characters has a line mark
};

bool HasSpaceInside(std::string_view piece) {
  while (piece.starts_with(kSpaceSymbol)) piece.remove_prefix(kSpaceSymbol.size());
  return piece.find(kSpaceSymbol) != std::string_view::npos ||
         piece.find(' ') != std::string_view::npos;
}

bool JoinsLineMark(std::string_view piece) {
  return piece.size() > 1 && piece.find_first_of(kLineMarks) != std::string_view::npos;
}

bool ReadPiece(std::string_view message, Pieces* pieces) {
  const int32_t id = pieces->count++;
  return VisitFields(message, [&](const WireField& field) {
    if (field.number != 1) return;
    if (field.bytes == kSpaceSymbol) pieces->space_token = id;
    pieces->space_inside |= HasSpaceInside(field.bytes);
    pieces->joins_line_mark |= JoinsLineMark(field.bytes);
  });
}

}  // namespace

WordBoundaries FindWordBoundaries(std::string_view model) {
  Settings settings;
  Pieces pieces;
  bool readable = true;
  readable &= VisitFields(model, [&](const WireField& field) {
    if (field.number == 1) readable &= ReadPiece(field.bytes, &pieces);
    if (field.number == 2) readable &= ReadTrainerSpec(field.bytes, &settings);
    if (field.number == 3) readable &= ReadNormalizerSpec(field.bytes, &settings);
  });
  WordBoundaries boundaries;
  if (!readable || !Allows(settings) || pieces.space_inside || pieces.space_token < 0) {
    return boundaries;
  }
  boundaries.at_spaces = true;
  boundaries.at_line_marks = !pieces.joins_line_mark;
  boundaries.space_token = pieces.space_token;
  return boundaries;
}

}  // namespace braid
