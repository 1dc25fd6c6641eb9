#include "retrieval/bert_characters.h"

#include <unicode/uchar.h>
#include <unicode/unorm2.h>
#include <unicode/ustring.h>
#include <unicode/utf16.h>
#include <unicode/utf8.h>

#include <algorithm>
#include <cctype>

#include "base/check.h"

namespace braid {
namespace {

constexpr int32_t kNumTabled = 0x10000;
constexpr int32_t kCapitalSigma = 0x3A3;

struct Range {
  int32_t first, last;
};
// Returns whether the published tokenizer regards a character as CJK: ideographs, but not kana or
// Hangul.
constexpr Range kIdeographs[] = {{0x3400, 0x4DBF},   {0x4E00, 0x9FFF},   {0xF900, 0xFAFF},
                                 {0x20000, 0x2A6DF}, {0x2A700, 0x2B73F}, {0x2B740, 0x2B81F},
                                 {0x2B820, 0x2CEAF}, {0x2F800, 0x2FA1F}};

bool IsIdeograph(int32_t character) {
  return std::ranges::any_of(kIdeographs, [character](const Range& range) {
    return range.first <= character && character <= range.last;
  });
}

// The tokenizer does not list Zl and Zp as white space, but the function with which it splits text
// at white space does.
bool IsSpace(int32_t character) {
  if (character == '\t' || character == '\n' || character == '\r') return true;
  return (U_GET_GC_MASK(character) & U_GC_Z_MASK) != 0;
}

// Returns whether a character has a category C*, as in Hugging Face's tokenizer.
bool IsDropped(int32_t character) {
  return character == 0 || character == 0xFFFD || (U_GET_GC_MASK(character) & U_GC_C_MASK) != 0;
}

bool IsAccent(int32_t character) { return u_charType(character) == U_NON_SPACING_MARK; }

std::u16string ToUtf16(int32_t character) {
  if (U16_LENGTH(character) == 1) return {static_cast<char16_t>(character)};
  return {static_cast<char16_t>(U16_LEAD(character)), static_cast<char16_t>(U16_TRAIL(character))};
}

// Calls `convert(target, capacity, &error)`, an ICU function, with a sufficient capacity.
template <class Convert>
std::u16string WithRoom(size_t guess, Convert convert) {
  std::u16string text(guess, u'\0');
  UErrorCode error = U_ZERO_ERROR;
  int32_t length = convert(text.data(), static_cast<int32_t>(text.size()), &error);
  if (error == U_BUFFER_OVERFLOW_ERROR) {
    text.resize(static_cast<size_t>(length));
    error = U_ZERO_ERROR;
    length = convert(text.data(), length, &error);
  }
  BRAID_CHECK(U_SUCCESS(error)) << "ICU: " << u_errorName(error);
  text.resize(static_cast<size_t>(length));
  return text;
}

// Applies the full case mapping of the root locale, including the final sigma.
std::u16string ToLower(const std::u16string& text) {
  return WithRoom(text.size() + 8, [&](char16_t* target, int32_t capacity, UErrorCode* error) {
    return u_strToLower(target, capacity, text.data(), static_cast<int32_t>(text.size()), "",
                        error);
  });
}

const UNormalizer2& Decomposer() {
  static const UNormalizer2* const decomposer = [] {
    UErrorCode error = U_ZERO_ERROR;
    const UNormalizer2* const instance = unorm2_getNFDInstance(&error);
    BRAID_CHECK(U_SUCCESS(error)) << "ICU's data: " << u_errorName(error);
    return instance;
  }();
  return *decomposer;
}

std::u16string Decompose(const std::u16string& text) {
  return WithRoom(text.size() + 8, [&](char16_t* target, int32_t capacity, UErrorCode* error) {
    return unorm2_normalize(&Decomposer(), text.data(), static_cast<int32_t>(text.size()), target,
                            capacity, error);
  });
}

std::vector<int32_t> Characters(const std::u16string& text) {
  std::vector<int32_t> characters;
  for (size_t i = 0; i < text.size();) {
    UChar32 character;
    U16_NEXT(text.data(), i, text.size(), character);
    characters.push_back(character);
  }
  return characters;
}

}  // namespace

bool BertCharacters::IsPunctuation(int32_t character) {
  if (character < 0x80) return std::ispunct(static_cast<unsigned char>(character)) != 0;
  return (U_GET_GC_MASK(character) & U_GC_P_MASK) != 0;
}

const BertCharacters& BertCharacters::Get(bool lower_case) {
  if (lower_case) {
    static const auto* const uncased = new BertCharacters(true);
    return *uncased;
  }
  static const auto* const cased = new BertCharacters(false);
  return *cased;
}

BertCharacters::BertCharacters(bool lower_case) : lower_case_(lower_case), entries_(kNumTabled) {
  NormalizedBuffer buffer;
  for (int32_t character = 0; character < kNumTabled; ++character) {
    if (U_IS_SURROGATE(character)) continue;
    const NormalizedCharacter found = Compute(character, &buffer);
    entries_[static_cast<size_t>(character)] = {static_cast<uint32_t>(text_.size()),
                                                static_cast<uint8_t>(found.text.size()),
                                                found.num_characters, found.kind};
    text_.append(found.text);
  }
}

NormalizedCharacter BertCharacters::Find(int32_t character, NormalizedBuffer* buffer) const {
  if (character >= kNumTabled) return Compute(character, buffer);
  const Entry& entry = entries_[static_cast<size_t>(character)];
  return {entry.kind, entry.num_characters, {text_.data() + entry.begin, entry.num_bytes}};
}

NormalizedCharacter BertCharacters::Compute(int32_t character, NormalizedBuffer* buffer) const {
  if (IsSpace(character)) return {.kind = CharacterKind::kSpace};
  if (IsDropped(character)) return {.kind = CharacterKind::kDropped};
  std::vector<int32_t> characters = {character};
  if (lower_case_) {
    if (character == kCapitalSigma) return {.kind = CharacterKind::kContextual};
    characters = Characters(Decompose(ToLower(ToUtf16(character))));
    std::erase_if(characters, IsAccent);
    // Characters with a nonzero combining class may be reordered by adjacent accents.
    const auto moves = [](int32_t c) { return u_getCombiningClass(c) != 0; };
    if (std::ranges::any_of(characters, moves)) return {.kind = CharacterKind::kContextual};
  }
  const auto num_points = std::ranges::count_if(characters, IsPunctuation);
  const bool whole = num_points == 0 || characters.size() == 1;
  if (!whole) return {.kind = CharacterKind::kContextual};
  BRAID_CHECK(4 * characters.size() <= kMaxNormalizedBytes) << character;
  size_t size = 0;
  for (const int32_t c : characters) U8_APPEND_UNSAFE(buffer->data(), size, c);
  const CharacterKind kind = IsIdeograph(character) ? CharacterKind::kIdeograph
                             : num_points > 0       ? CharacterKind::kPunctuation
                                                    : CharacterKind::kWord;
  return {kind, static_cast<uint8_t>(characters.size()), {buffer->data(), size}};
}

std::vector<int32_t> BertCharacters::NormalizeRun(std::string_view run) const {
  std::u16string text;
  for (size_t i = 0; i < run.size();) {
    UChar32 character;
    U8_NEXT(run.data(), i, run.size(), character);
    if (character >= 0 && !IsDropped(character)) text += ToUtf16(character);
  }
  if (!lower_case_) return Characters(text);
  std::vector<int32_t> characters = Characters(Decompose(ToLower(text)));
  std::erase_if(characters, IsAccent);
  return characters;
}

std::string UnicodeVersion() {
  UVersionInfo version;
  u_getUnicodeVersion(version);
  char text[U_MAX_VERSION_STRING_LENGTH];
  u_versionToString(version, text);
  return text;
}

}  // namespace braid
