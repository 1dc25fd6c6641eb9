// Where a text may be cut so that the tokens of its parts are the tokens of the
// whole, for a SentencePiece model.
//
// BPE merges neighbouring symbols while their union is a piece, so what stands on
// both sides of a place that no piece spans is merged independently: the tokens of
// the whole are those of the sides, one after the other. A model trained with
// SentencePiece's usual split at white space has such a place before every word.
#ifndef BRAID_FORMATS_WORD_BOUNDARIES_H_
#define BRAID_FORMATS_WORD_BOUNDARIES_H_

#include <cstdint>
#include <string_view>

namespace braid {

struct WordBoundaries {
  // Before a space that follows another character. False when the model is not
  // known to allow it: no BPE, a normaliser that rewrites text, no dummy space before
  // a text, no byte fallback (runs of unknown characters then become one token), or a
  // piece with a space behind another character, or none for a space alone.
  bool at_spaces = false;
  // Before and after newlines, tabs and carriage returns; only with at_spaces. False
  // when a longer piece holds one of them.
  bool at_line_marks = false;
  // The piece of a space that nothing joins; -1 without at_spaces.
  int32_t space_token = -1;
};

// `model`: a serialised ModelProto that CheckSentencePieceModel accepts. One that
// cannot be read in detail has no boundaries.
WordBoundaries FindWordBoundaries(std::string_view model);

}  // namespace braid

#endif  // BRAID_FORMATS_WORD_BOUNDARIES_H_
