#include "formats/word_boundaries.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>

#include "formats/protobuf_wire.h"
#include "formats/sentencepiece_settings.h"

namespace braid {
namespace {

// Candidates for `mark`, characters that are rare in texts; the first that no piece joins is used.
constexpr std::string_view kMarks = "\n\t\r\x01\x02\x03";

// Calls visit(field) for every field; returns false if the message is truncated.
template <class Visit>
bool VisitFields(std::string_view message, Visit visit) {
  for (size_t position = 0; position < message.size();) {
    const std::optional<WireField> field = ReadWireField(message, &position);
    if (!field) return false;
    visit(*field);
  }
  return true;
}

bool Allows(const SentencePieceSettings& settings) {
  constexpr uint64_t kBpe = 2;
  return settings.model_type == kBpe && settings.byte_fallback && !settings.space_is_suffix &&
         !settings.rewrites_text && settings.adds_dummy_space && !settings.removes_extra_spaces &&
         settings.escapes_spaces;
}

// Returns a piece as it is spelled in texts.
std::string Spelled(std::string_view piece) {
  std::string text;
  while (!piece.empty()) {
    const bool space = piece.starts_with(kSpaceSymbol);
    text += space ? ' ' : piece.front();
    piece.remove_prefix(space ? kSpaceSymbol.size() : 1);
  }
  return text;
}

struct Piece {
  std::string_view text;
  uint64_t type = 1;
};

bool ReadPiece(std::string_view message, Piece* piece) {
  return VisitFields(message, [&](const WireField& field) {
    if (field.number == 1) piece->text = field.bytes;
    if (field.number == 3) piece->type = field.value;
  });
}

void AddPiece(const Piece& piece, int32_t id, WordBoundaries* boundaries) {
  // Pieces of other types do not occur in texts. Unused pieces count: they are merged and split
  // later.
  constexpr uint64_t kNormal = 1, kUserDefined = 4, kUnused = 5;
  if (piece.type != kNormal && piece.type != kUserDefined && piece.type != kUnused) return;
  if (piece.text == kSpaceSymbol && piece.type != kUnused) boundaries->space_token = id;
  const std::string text = Spelled(piece.text);
  for (size_t i = 1; i < text.size(); ++i) {
    const auto before = static_cast<uint8_t>(text[i - 1]), after = static_cast<uint8_t>(text[i]);
    boundaries->joined.set(size_t{before} * 256 + after);
  }
}

bool StandsAlone(const WordBoundaries& boundaries, char c) {
  for (int other = 0; other < 256; ++other) {
    const auto o = static_cast<size_t>(other), self = static_cast<size_t>(c);
    if (boundaries.joined[self * 256 + o] || boundaries.joined[o * 256 + self]) return false;
  }
  return true;
}

}  // namespace

WordBoundaries FindWordBoundaries(std::string_view model) {
  WordBoundaries boundaries;
  const absl::StatusOr<SentencePieceSettings> settings = ReadSentencePieceSettings(model);
  int32_t num_pieces = 0;
  bool readable = settings.ok();
  readable &= VisitFields(model, [&](const WireField& field) {
    if (field.number != 1) return;
    Piece piece;
    readable &= ReadPiece(field.bytes, &piece);
    AddPiece(piece, num_pieces++, &boundaries);
  });
  const auto mark =
      std::ranges::find_if(kMarks, [&](char c) { return StandsAlone(boundaries, c); });
  boundaries.known =
      readable && Allows(*settings) && boundaries.space_token >= 0 && mark != kMarks.end();
  if (boundaries.known) boundaries.mark = *mark;
  return boundaries;
}

}  // namespace braid
