// Normalization of single characters as BERT does it: the part of WordPiece tokenization that
// depends on Unicode. Categories, case and decompositions are those of ICU.
//
// The published tokenizer makes passes over the text: it drops control characters, turns white
// space into spaces, puts spaces around CJK ideographs, lower-cases, decomposes (NFD), drops
// category Mn and splits at punctuation. For all but a few characters the result does not depend on
// the context, so it is looked up; the exceptions (kContextual) send their whole run of text
// through the passes.
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
  kIdeograph,    // ends a run and is a word of its own
  kPunctuation,  // is a word of its own
  kWord,         // part of a word; its text may be empty, for example for an accent
  kContextual,   // depends on its neighbors: see NormalizeRun
};

struct NormalizedCharacter {
  CharacterKind kind = CharacterKind::kDropped;
  uint8_t num_characters = 0;
  std::string_view text = {};  // UTF-8; empty unless an ideograph, punctuation or word
};

// Space for a result of Find. No character is replaced by more than four.
inline constexpr size_t kMaxNormalizedBytes = 32;
using NormalizedBuffer = std::array<char, kMaxNormalizedBytes>;

class BertCharacters {
 public:
  // Returns the tables, which are built at the first call in 10 ms. Without `lower_case`, letters
  // and accents are kept.
  static const BertCharacters& Get(bool lower_case);

  // Returns the normalization of a Unicode scalar value. Its text is stored in this object or in
  // `buffer`.
  NormalizedCharacter Find(int32_t character, NormalizedBuffer* buffer) const;

  // Returns the characters of a run (text without spaces and ideographs) after all passes except
  // the splitting at punctuation. Bytes that are not UTF-8 are dropped.
  std::vector<int32_t> NormalizeRun(std::string_view run) const;

  // Returns whether BERT regards a character as punctuation: category P*, or an ASCII symbol such
  // as $ or `.
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
  std::vector<Entry> entries_;  // table for the Basic Multilingual Plane
  std::string text_;
};

// Returns the Unicode version of the tables, such as "15.0.0.0". Characters that it does not define
// are dropped.
std::string UnicodeVersion();

}  // namespace braid

#endif  // BRAID_RETRIEVAL_BERT_CHARACTERS_H_
