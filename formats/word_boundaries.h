// Where a text may be cut so that the tokens of its parts are the tokens of the
// whole, for a SentencePiece model.
//
// BPE merges neighbouring symbols while their union is a piece. So what stands on
// both sides of a place that no piece spans is merged independently, and the tokens
// of the whole are those of the sides, one after the other. SentencePiece learns no
// piece over a space behind a character or over two scripts, so such places
// abound: around words, punctuation, digits and line marks.
#ifndef BRAID_FORMATS_WORD_BOUNDARIES_H_
#define BRAID_FORMATS_WORD_BOUNDARIES_H_

#include <bitset>
#include <cstdint>
#include <string_view>

namespace braid {

struct WordBoundaries {
  // False when the model is not known to allow cuts: no BPE, a normaliser that
  // rewrites text, no dummy space before a text, no byte fallback (runs of unknown
  // characters then become one token), or no piece for a space alone. The rest is then
  // meaningless.
  bool known = false;
  // joined[a * 256 + b]: some piece has byte b right behind byte a, a space being ' '.
  std::bitset<256 * 256> joined;
  // A character that no piece joins with anything.
  char mark = 0;
  // The piece of a space that nothing joins.
  int32_t space_token = -1;

  // Whether the text can be cut between two neighbouring bytes. Never inside a
  // character of UTF-8.
  bool CanCut(char before, char after) const {
    const auto a = static_cast<uint8_t>(before), b = static_cast<uint8_t>(after);
    const bool starts_character = (b & 0xC0) != 0x80;
    return starts_character && !joined[size_t{a} * 256 + b];
  }
};

// `model`: a serialised ModelProto that CheckSentencePieceModel accepts. One that
// cannot be read in detail has no known boundaries.
WordBoundaries FindWordBoundaries(std::string_view model);

}  // namespace braid

#endif  // BRAID_FORMATS_WORD_BOUNDARIES_H_
