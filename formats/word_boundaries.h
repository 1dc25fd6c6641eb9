// Places where a text may be cut so that the tokens of its parts are the tokens of the whole, for a
// SentencePiece model.
//
// BPE merges adjacent symbols while their concatenation is a piece. If no piece spans a place, the
// symbols on its two sides are merged independently, and the tokens of the whole are those of the
// sides, one after the other. SentencePiece learns no piece across a space that follows a character
// or across two scripts, so such places are frequent: around words, punctuation, digits and line
// ends.
#ifndef BRAID_FORMATS_WORD_BOUNDARIES_H_
#define BRAID_FORMATS_WORD_BOUNDARIES_H_

#include <bitset>
#include <cstdint>
#include <string_view>

#include "base/utf8.h"

namespace braid {

// U+2581, which stands for a space in the pieces of SentencePiece models.
inline constexpr std::string_view kSpaceSymbol = "\xE2\x96\x81";

struct WordBoundaries {
  // False if the model is not known to allow cuts: not BPE, a normalizer that rewrites text, no
  // dummy space before a text, no byte fallback (runs of unknown characters then become one token),
  // or no piece for a single space. The other fields have no meaning then.
  bool known = false;
  // joined[a * 256 + b]: some piece contains byte b directly after byte a, a space being ' '.
  std::bitset<256 * 256> joined;
  // A character that no piece joins with another.
  char mark = 0;
  // Id of the piece for a space that is joined with nothing.
  int32_t space_token = -1;

  // Returns whether a text can be cut between two adjacent bytes; never within a UTF-8 character.
  bool CanCut(char before, char after) const {
    const auto a = static_cast<uint8_t>(before), b = static_cast<uint8_t>(after);
    return !IsContinuationByte(after) && !joined[size_t{a} * 256 + b];
  }
};

// Computes the boundaries from a serialized ModelProto that CheckSentencePieceModel accepts.
// `known` is false for a model that cannot be parsed in detail.
WordBoundaries FindWordBoundaries(std::string_view model);

}  // namespace braid

#endif  // BRAID_FORMATS_WORD_BOUNDARIES_H_
