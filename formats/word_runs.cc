#include "formats/word_runs.h"

// A word has a few bytes, so the call of a library function would cost more than hashing it.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <utility>

#include "base/splitmix.h"
#include "base/utf8.h"

namespace braid {
namespace {

constexpr uint64_t kRunBase = kGolden64;  // odd, so that no power is 0

constexpr uint64_t BaseToThe(size_t exponent) {
  return exponent == 0 ? 1 : kRunBase * BaseToThe(exponent - 1);
}

bool IsRunSpace(unsigned char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
bool IsRunPunctuation(unsigned char c) {
  return (c > ' ' && c < '0') || (c > '9' && c < 'A') || (c > 'Z' && c < 'a') ||
         (c > 'z' && c < 0x7F);
}

// Returns whether the character at the start of `text` is an ideograph (U+3400 to U+9FFF, U+F900 to
// U+FAFF, U+20000 to U+3FFFF) or kana (U+3040 to U+30FF). Their encodings are compared as numbers.
bool IsWordByItself(std::string_view text) {
  const auto at = [&](size_t i) { return uint32_t{static_cast<unsigned char>(text[i])}; };
  const size_t length = EncodedLength(text[0]);
  if (length < 3 || text.size() < length) return false;
  const uint32_t start = at(0) << 16 | at(1) << 8 | at(2);
  if (length == 4) return start >= 0xF0A080 && start <= 0xF0BFBF;
  return (start >= 0xE38180 && start <= 0xE383BF) || (start >= 0xE39080 && start <= 0xE9BFBF) ||
         (start >= 0xEFA480 && start <= 0xEFABBF);
}

// Returns the end of the word at the start of `text`, which is neither empty nor begins with a
// space.
size_t WordLength(std::string_view text) {
  if (IsWordByItself(text)) return EncodedLength(text[0]);
  size_t end = 1;
  while (end < text.size() && text[end] != ' ' &&
         (static_cast<unsigned char>(text[end]) < 0xE3 || !IsWordByItself(text.substr(end)))) {
    ++end;
  }
  return end;
}

}  // namespace

std::string NormalizeText(std::string_view text) {
  std::string normalized;
  normalized.reserve(text.size());
  bool space = false;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (IsRunPunctuation(byte)) continue;
    if (IsRunSpace(byte)) {
      space = !normalized.empty();
      continue;
    }
    if (std::exchange(space, false)) normalized.push_back(' ');
    normalized.push_back(c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c);
  }
  return normalized.empty() ? std::string(text) : normalized;
}

// Spreads the low bits, which are the weakest of a product modulo 2^64.
uint64_t WordRuns::hash() const { return Scramble64(rolling_); }

bool WordRuns::Next() {
  constexpr uint64_t kOldest = BaseToThe(kWordsPerRun - 1);
  const std::string_view text = text_;
  do {
    while (end_ < text.size() && text[end_] == ' ') ++end_;
    if (end_ == text.size()) return false;
    const size_t start = end_;
    end_ += WordLength(text.substr(start));
    const size_t slot = num_words_ % kWordsPerRun;
    const uint64_t word = XXH3_64bits(text.data() + start, end_ - start);
    rolling_ = (rolling_ - hashes_[slot] * kOldest) * kRunBase + word;
    hashes_[slot] = word;
    begins_[slot] = start;
    ++num_words_;
  } while (num_words_ < kWordsPerRun);
  begin_ = begins_[num_words_ % kWordsPerRun];
  return true;
}

}  // namespace braid
