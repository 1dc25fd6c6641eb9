#include "retrieval/word_ngrams.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>

#include "base/check.h"
#include "base/utf8.h"

namespace braid {
namespace {

enum class CharacterKind { kSeparator, kWordPart, kWholeWord };

struct Character {
  CharacterKind kind;
  size_t num_bytes;
};

bool IsAsciiWordByte(unsigned char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

// Returns the length in bytes of the first character: what its lead byte announces, or less if the
// sequence is incomplete.
size_t FirstCharacterLength(std::string_view text) {
  const size_t expected = std::min(EncodedLength(text[0]), text.size());
  size_t length = 1;
  while (length < expected && IsContinuationByte(text[length])) ++length;
  return length;
}

CharacterKind ClassifyNonAscii(unsigned char lead, unsigned char second) {
  if (lead == 0xC2 || lead == 0xE2) return CharacterKind::kSeparator;
  if (lead == 0xE3 && second == 0x80) return CharacterKind::kSeparator;
  return lead >= 0xE3 && lead <= 0xE9 ? CharacterKind::kWholeWord : CharacterKind::kWordPart;
}

Character FirstCharacter(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text[0]);
  if (lead < 0x80) {
    return {IsAsciiWordByte(lead) ? CharacterKind::kWordPart : CharacterKind::kSeparator, 1};
  }
  const size_t num_bytes = FirstCharacterLength(text);
  const auto second = num_bytes > 1 ? static_cast<unsigned char>(text[1]) : 0;
  return {ClassifyNonAscii(lead, static_cast<unsigned char>(second)), num_bytes};
}

char LowerAscii(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

struct WordRange {
  size_t begin, end;
};

std::vector<WordRange> SplitAtSpaces(std::string_view words) {
  std::vector<WordRange> ranges;
  for (size_t begin = 0; begin < words.size();) {
    const size_t end = std::min(words.find(' ', begin), words.size());
    ranges.push_back({begin, end});
    begin = end + 1;
  }
  return ranges;
}

}  // namespace

std::string NormalizeWords(std::string_view text) {
  std::string words;
  words.reserve(text.size());
  bool inside_word = false;
  while (!text.empty()) {
    const Character character = FirstCharacter(text);
    if (character.kind != CharacterKind::kSeparator) {
      const bool continues = inside_word && character.kind == CharacterKind::kWordPart;
      if (!continues && !words.empty()) words += ' ';
      for (char c : text.substr(0, character.num_bytes)) words += LowerAscii(c);
    }
    inside_word = character.kind == CharacterKind::kWordPart;
    text.remove_prefix(character.num_bytes);
  }
  return words;
}

std::vector<uint64_t> WordNgramHashes(std::string_view text, int32_t max_ngram) {
  BRAID_CHECK(max_ngram >= 1) << max_ngram;
  const std::string words = NormalizeWords(text);
  const std::vector<WordRange> ranges = SplitAtSpaces(words);
  std::vector<uint64_t> hashes;
  hashes.reserve(ranges.size() * static_cast<size_t>(max_ngram));
  for (size_t first = 0; first < ranges.size(); ++first) {
    const size_t stop = std::min(ranges.size(), first + static_cast<size_t>(max_ngram));
    for (size_t last = first; last < stop; ++last) {
      const size_t begin = ranges[first].begin;
      hashes.push_back(XXH3_64bits(words.data() + begin, ranges[last].end - begin));
    }
  }
  std::sort(hashes.begin(), hashes.end());
  return hashes;
}

}  // namespace braid
