// What BERT's text normalisation makes of one character: the part of
// WordPiece tokenisation that knows Unicode. Categories, case and decompositions
// are ICU's.
//
// The published tokenizer works in passes over the text: drop control characters,
// turn white space into spaces, put spaces around CJK ideographs, lower-case,
// decompose (NFD), drop category Mn, split at punctuation. All but a few characters
// come out of these passes the same wherever they stand, so they are looked up; the
// exceptions (kContextual) send their whole run of text through the passes.
#ifndef BRAID_RETRIEVAL_BERT_CHARACTERS_H_
#define BRAID_RETRIEVAL_BERT_CHARACTERS_H_

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace braid {

enum class CharacterKind : uint8_t {
  kDropped,      // control, unassigned, private use, U+0000, U+FFFD
  kSpace,        // ends a run
  kIdeograph,    // ends a run and is a word
  kPunctuation,  // is a word
  kWord,         // part of a word; its text may be empty, as that of an accent is
  kContextual,   // depends on its neighbours: see NormalizeRun
};

struct NormalizedCharacter {
  CharacterKind kind = CharacterKind::kDropped;
  uint8_t num_characters = 0;
  std::string_view text = {};  // UTF-8; empty unless an ideograph, punctuation or word
};

// Room for what Find gives. No character has more than four in its place.
inline constexpr size_t kMaxNormalizedBytes = 32;
using NormalizedBuffer = std::array<char, kMaxNormalizedBytes>;

class BertCharacters {
 public:
  // Made at the first call, 10 ms. `lower_case` false leaves letters and accents as
  // they are.
  static const BertCharacters& Get(bool lower_case);

  // The text lies in this object or in `buffer`. Requires: a Unicode scalar value.
  NormalizedCharacter Find(int32_t character, NormalizedBuffer* buffer) const;

  // The characters of a run, text without spaces and ideographs, after all passes but
  // the splitting at punctuation. Bytes that are not UTF-8 are dropped.
  std::vector<int32_t> NormalizeRun(std::string_view run) const;

  // Category P*, or an ASCII symbol such as $ or `.
  static bool IsPunctuation(int32_t character);

 private:
  explicit BertCharacters(bool lower_case);

  struct Entry {
    uint32_t begin = 0;  // in text_
    uint8_t num_bytes = 0;
    uint8_t num_characters = 0;
    CharacterKind kind = CharacterKind::kDropped;
  };

  NormalizedCharacter Compute(int32_t character, NormalizedBuffer* buffer) const;

  bool lower_case_;
  std::vector<Entry> entries_;  // of the Basic Multilingual Plane
  std::string text_;
};

// The Unicode version of the tables at hand, such as "15.0.0.0": characters that it
// does not know yet are dropped.
std::string UnicodeVersion();

}  // namespace braid

#endif  // BRAID_RETRIEVAL_BERT_CHARACTERS_H_
