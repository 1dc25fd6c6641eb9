#include "formats/piece_scanner.h"

#include <unicode/regex.h>
#include <unicode/uchar.h>
#include <unicode/utext.h>

#include <array>
#include <cstdint>
#include <memory>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/check.h"

namespace braid {
namespace {

enum CharacterClass : uint8_t {
  kLetter = 1,   // \p{L}
  kNumber = 2,   // \p{N}
  kSpace = 4,    // \s, the property White_Space
  kLineEnd = 8,  // \r and \n
  kUpper = 16,   // \p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}
  kLower = 32,   // \p{Ll}\p{Lm}\p{Lo}\p{M}
};

uint8_t ClassesOf(UChar32 c) {
  const uint32_t category = U_GET_GC_MASK(c);
  uint8_t classes = 0;
  if ((category & U_GC_L_MASK) != 0) classes |= kLetter;
  if ((category & U_GC_N_MASK) != 0) classes |= kNumber;
  if (u_isUWhiteSpace(c)) classes |= kSpace;
  if (c == '\r' || c == '\n') classes |= kLineEnd;
  const uint32_t uncased = U_GC_LM_MASK | U_GC_LO_MASK | U_GC_M_MASK;
  if ((category & (U_GC_LU_MASK | U_GC_LT_MASK | uncased)) != 0) classes |= kUpper;
  if ((category & (U_GC_LL_MASK | uncased)) != 0) classes |= kLower;
  return classes;
}

using ClassTable = std::array<uint8_t, 0x10000>;

const ClassTable& ClassesOfBasicPlane() {
  static const auto* const table = [] {
    auto* classes = new ClassTable;
    for (UChar32 c = 0; c < 0x10000; ++c) (*classes)[static_cast<size_t>(c)] = ClassesOf(c);
    return classes;
  }();
  return *table;
}

struct ScannedCharacter {
  uint8_t classes = 0;
  uint8_t length = 0;  // in bytes; 0 at the end of the text
};

// Walks over the characters of valid UTF-8.
class CharacterScan {
 public:
  explicit CharacterScan(std::string_view text) : text_(text), table_(ClassesOfBasicPlane()) {}

  ScannedCharacter At(size_t i) const {
    if (i >= text_.size()) return {};
    const auto lead = static_cast<uint8_t>(text_[i]);
    return lead < 0x80 ? ScannedCharacter{table_[lead], 1} : AtWide(i);
  }

  // At() for a character beyond ASCII, apart so that the common case is inlined.
  [[gnu::noinline]] ScannedCharacter AtWide(size_t i) const {
    const auto byte = [&](size_t k) { return static_cast<uint8_t>(text_[i + k]); };
    const uint32_t lead = byte(0);
    if (lead < 0xE0) return {table_[(lead & 0x1F) << 6 | (byte(1) & 0x3F)], 2};
    if (lead < 0xF0) {
      return {table_[(lead & 0x0F) << 12 | (byte(1) & 0x3Fu) << 6 | (byte(2) & 0x3F)], 3};
    }
    return {ClassesOf(static_cast<UChar32>((lead & 0x07) << 18 | (byte(1) & 0x3Fu) << 12 |
                                           (byte(2) & 0x3Fu) << 6 | (byte(3) & 0x3Fu))),
            4};
  }

  // Returns the end of the run of characters from `i` that have one of `classes`.
  size_t Run(size_t i, uint8_t classes, size_t limit = SIZE_MAX) const {
    for (size_t n = 0; n < limit; ++n) {
      const ScannedCharacter c = At(i);
      if ((c.classes & classes) == 0) break;
      i += c.length;
    }
    return i;
  }

  // Returns the end of the run of characters from `i` that have none of `classes`.
  size_t RunWithout(size_t i, uint8_t classes) const {
    while (true) {
      const ScannedCharacter c = At(i);
      if (c.length == 0 || (c.classes & classes) != 0) return i;
      i += c.length;
    }
  }

  bool Is(size_t i, char byte) const { return i < text_.size() && text_[i] == byte; }

  // Returns the end of the last character in [begin, end) that has one of `classes`; 0 if none has.
  size_t LastEnd(size_t begin, size_t end, uint8_t classes) const {
    size_t last = 0;
    for (size_t i = begin; i < end;) {
      const ScannedCharacter c = At(i);
      i += c.length;
      if ((c.classes & classes) != 0) last = i;
    }
    return last;
  }

  // Returns the end of 's, 't, 're, 've, 'm, 'll or 'd at `i`, or `i`. Without regard to case an
  // s is also U+017F.
  size_t Contraction(size_t i, bool any_case) const {
    if (!Is(i, '\'')) return i;
    const auto letter = [&](size_t k) -> char {
      if (i + k >= text_.size()) return 0;
      const char c = text_[i + k];
      return any_case && c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    };
    const char first = letter(1);
    if (first == 's' || first == 't' || first == 'm' || first == 'd') return i + 2;
    if ((first == 'r' || first == 'v') && letter(2) == 'e') return i + 3;
    if (first == 'l' && letter(2) == 'l') return i + 3;
    if (any_case && text_.substr(i + 1, 2) == "\xC5\xBF") return i + 3;
    return i;
  }

 private:
  std::string_view text_;
  const ClassTable& table_;
};

// Returns the end of [upper]*[lower]+ at `i`, or 0. The first part gives back what the second one
// needs; marks and letters without case belong to both.
size_t LowerWord(const CharacterScan& scan, size_t i) {
  const size_t upper_end = scan.Run(i, kUpper);
  const size_t end = scan.Run(upper_end, kLower);
  return end > upper_end ? end : scan.LastEnd(i, upper_end, kLower);
}

// Returns the end of [upper]+[lower]* at `i`, or 0.
size_t UpperWord(const CharacterScan& scan, size_t i) {
  const size_t upper_end = scan.Run(i, kUpper);
  return upper_end > i ? scan.Run(upper_end, kLower) : 0;
}

// GPT-4o: [^\r\n\p{L}\p{N}]? before a word in lower case after capitals, else before one in upper
// case; a contraction belongs to its word.
size_t CasedWord(const CharacterScan& scan, size_t i) {
  const ScannedCharacter first = scan.At(i);
  const bool prefix = (first.classes & (kLetter | kNumber | kLineEnd)) == 0;
  size_t end = prefix ? LowerWord(scan, i + first.length) : 0;
  if (end == 0) end = LowerWord(scan, i);
  if (end == 0 && prefix) end = UpperWord(scan, i + first.length);
  if (end == 0) end = UpperWord(scan, i);
  return end == 0 ? 0 : scan.Contraction(end, true);
}

size_t PlainWord(const CharacterScan& scan, const PieceRules& rules, size_t i) {
  const ScannedCharacter first = scan.At(i);
  if ((first.classes & kLetter) != 0) return scan.Run(i, kLetter);
  const bool prefix =
      rules.any_prefix ? (first.classes & (kNumber | kLineEnd)) == 0 : scan.Is(i, ' ');
  const size_t end = prefix ? scan.Run(i + first.length, kLetter) : 0;
  return end > i + first.length ? end : 0;
}

size_t Digits(const CharacterScan& scan, const PieceRules& rules, size_t i) {
  const size_t begin = rules.space_before_digits && scan.Is(i, ' ') ? i + 1 : i;
  const size_t end = scan.Run(begin, kNumber, rules.max_digits == 0 ? SIZE_MAX : rules.max_digits);
  return end > begin ? end : 0;
}

size_t Symbols(const CharacterScan& scan, const PieceRules& rules, size_t i) {
  const size_t begin = scan.Is(i, ' ') ? i + 1 : i;
  size_t end = scan.RunWithout(begin, kSpace | kLetter | kNumber);
  if (end == begin) return 0;
  const auto follows = [&](size_t k) {
    for (const char c : rules.after_symbols) {
      if (scan.Is(k, c)) return true;
    }
    return false;
  };
  while (follows(end)) ++end;
  return end;
}

// The last space before a word belongs to the word's piece.
size_t Spaces(const CharacterScan& scan, const PieceRules& rules, std::string_view text, size_t i) {
  const size_t end = scan.Run(i, kSpace);
  if (rules.lines) {
    const size_t line_end = scan.LastEnd(i, end, kLineEnd);
    if (line_end > 0) return line_end;
  }
  if (end == text.size()) return end;
  size_t last = i;
  for (size_t k = i; k < end; k += scan.At(k).length) last = k;
  return last > i ? last : end;
}

constexpr std::string_view kGpt2 =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr std::string_view kLlama3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kQwen2 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kGpt4o =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

std::optional<PieceRules> RulesOf(std::string_view regex) {
  using Contractions = PieceRules::Contractions;
  if (regex == kGpt2) {
    return PieceRules{.contractions = Contractions::kLower, .space_before_digits = true};
  }
  PieceRules rules{.contractions = Contractions::kAnyCase,
                   .any_prefix = true,
                   .max_digits = 3,
                   .after_symbols = "\r\n",
                   .lines = true};
  if (regex == kLlama3) return rules;
  if (regex == kQwen2) {
    rules.max_digits = 1;
    return rules;
  }
  if (regex == kGpt4o) {
    rules.words = PieceRules::Words::kCased;
    rules.contractions = Contractions::kNone;
    rules.after_symbols = "\r\n/";
    return rules;
  }
  return std::nullopt;
}

std::shared_ptr<const icu::RegexPattern> CompileExpression(const std::string& regex) {
  UErrorCode error = U_ZERO_ERROR;
  UParseError place;
  return std::shared_ptr<const icu::RegexPattern>(
      icu::RegexPattern::compile(icu::UnicodeString::fromUTF8(regex), place, error));
}

// Calls `piece` with the matches of `regex` and with the texts between them.
void SplitByExpression(const icu::RegexPattern& regex, std::string_view text,
                       absl::FunctionRef<void(std::string_view)> piece) {
  UErrorCode error = U_ZERO_ERROR;
  const std::unique_ptr<icu::RegexMatcher> matcher(regex.matcher(error));
  UText* const input =
      utext_openUTF8(nullptr, text.data(), static_cast<int64_t>(text.size()), &error);
  BRAID_CHECK(U_SUCCESS(error)) << u_errorName(error);
  matcher->reset(input);
  size_t done = 0;
  while (matcher->find(error)) {
    const auto begin = static_cast<size_t>(matcher->start64(error));
    const auto end = static_cast<size_t>(matcher->end64(error));
    if (begin > done) piece(text.substr(done, begin - done));
    if (end > begin) piece(text.substr(begin, end - begin));
    done = end;
  }
  if (done < text.size()) piece(text.substr(done));
  utext_close(input);
}

void SplitAtDigits(bool individual, std::string_view text,
                   absl::FunctionRef<void(std::string_view)> piece) {
  const CharacterScan scan(text);
  for (size_t i = 0; i < text.size();) {
    const size_t digits = scan.Run(i, kNumber, individual ? 1 : SIZE_MAX);
    const size_t end = digits > i ? digits : scan.RunWithout(i, kNumber);
    piece(text.substr(i, end - i));
    i = end;
  }
}

}  // namespace

size_t PieceEnd(const PieceRules& rules, std::string_view text, size_t begin) {
  using Contractions = PieceRules::Contractions;
  const CharacterScan scan(text);
  if (rules.contractions != Contractions::kNone) {
    const size_t end = scan.Contraction(begin, rules.contractions == Contractions::kAnyCase);
    if (end > begin) return end;
  }
  const bool cased = rules.words == PieceRules::Words::kCased;
  size_t end = cased ? CasedWord(scan, begin) : PlainWord(scan, rules, begin);
  if (end == 0) end = Digits(scan, rules, begin);
  if (end == 0) end = Symbols(scan, rules, begin);
  return end != 0 ? end : Spaces(scan, rules, text, begin);
}

absl::Status PieceScanner::AddExpression(std::string_view regex) {
  if (const std::optional<PieceRules> rules = RulesOf(regex)) {
    cuts_.push_back({.kind = Kind::kRules, .rules = *rules});
    return absl::OkStatus();
  }
  // ICU's \s lacks U+000B and U+0085.
  const std::string icu_regex = absl::StrReplaceAll(
      std::string(regex), {{R"(\s)", R"(\p{White_Space})"}, {R"(\S)", R"(\P{White_Space})"}});
  for (const char* differs : {R"(\w)", R"(\W)", R"(\b)", R"(\B)"}) {
    if (icu_regex.find(differs) == std::string::npos) continue;
    return absl::UnimplementedError(
        absl::StrCat(icu_regex, " uses ", differs, ", whose meaning differs between libraries"));
  }
  Cut cut{.kind = Kind::kIcu, .rules = {}, .regex = CompileExpression(icu_regex)};
  if (cut.regex == nullptr) {
    return absl::UnimplementedError(absl::StrCat(icu_regex, " is not an expression of ICU"));
  }
  cuts_.push_back(std::move(cut));
  return absl::OkStatus();
}

void PieceScanner::AddDigits(bool individual) {
  cuts_.push_back({.kind = individual ? Kind::kDigit : Kind::kDigits, .rules = {}});
}

void PieceScanner::Split(std::string_view text,
                         absl::FunctionRef<void(std::string_view)> piece) const {
  SplitFrom(0, text, piece);
}

void PieceScanner::SplitFrom(size_t cut, std::string_view text,
                             absl::FunctionRef<void(std::string_view)> piece) const {
  if (cut == cuts_.size()) {
    if (!text.empty()) piece(text);
    return;
  }
  const auto next = [&](std::string_view part) { SplitFrom(cut + 1, part, piece); };
  switch (cuts_[cut].kind) {
    case Kind::kRules:
      for (size_t i = 0; i < text.size();) {
        const size_t end = PieceEnd(cuts_[cut].rules, text, i);
        next(text.substr(i, end - i));
        i = end;
      }
      return;
    case Kind::kDigit:
    case Kind::kDigits:
      SplitAtDigits(cuts_[cut].kind == Kind::kDigit, text, next);
      return;
    case Kind::kIcu:
      SplitByExpression(*cuts_[cut].regex, text, next);
      return;
  }
}

}  // namespace braid
