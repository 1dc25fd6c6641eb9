#include "formats/piece_scanner.h"

#include <unicode/regex.h>
#include <unicode/utext.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/utf8.h"
#include "formats/character_scan.h"

namespace braid {
namespace {

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
size_t CasedWord(const CharacterScan& scan, const PieceRules& rules, size_t i) {
  const ScannedCharacter first = scan.At(i);
  const bool prefix = (first.classes & (kLetter | kNumber | kLineEnd)) == 0;
  size_t end = prefix ? LowerWord(scan, i + first.length) : 0;
  if (end == 0) end = LowerWord(scan, i);
  if (end == 0 && prefix) end = UpperWord(scan, i + first.length);
  if (end == 0) end = UpperWord(scan, i);
  if (end == 0 || rules.contractions == PieceRules::Contractions::kNone) return end;
  return scan.Contraction(end, true);
}

// DeepSeek: ASCII letters after an ASCII symbol; [^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+.
size_t MarkedWord(const CharacterScan& scan, size_t i) {
  const ScannedCharacter first = scan.At(i);
  const size_t next = i + first.length;
  if ((first.classes & kSymbol) != 0) {
    const size_t end = first.length == 1 ? scan.AsciiLetters(next) : next;
    return end > next ? end : 0;
  }
  if ((first.classes & (kLetter | kMark)) != 0) return scan.Run(i, kLetter | kMark);
  const size_t end = (first.classes & kLineEnd) == 0 ? scan.Run(next, kLetter | kMark) : next;
  return end > next ? end : 0;
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
  size_t end = rules.words == PieceRules::Words::kMarked
                   ? scan.Run(begin, kSymbol)
                   : scan.RunWithout(begin, kSpace | kLetter | kNumber);
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

// Returns the end of a run of white space, or 0. The last space before a word belongs to the word's
// piece.
size_t Spaces(const CharacterScan& scan, const PieceRules& rules, size_t i) {
  const size_t end = scan.Run(i, kSpace);
  if (end == i) return 0;
  if (rules.lines) {
    const size_t line_end = scan.LastEnd(i, end, kLineEnd);
    if (line_end > 0) return line_end;
  }
  if (scan.At(end).length == 0) return end;
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

constexpr std::string_view kTekken =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kDeepSeekDigits = R"(\p{N}{1,3})";
constexpr std::string_view kDeepSeekIdeographs = "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+";
constexpr std::string_view kDeepSeek =
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

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
  if (regex == kDeepSeek) {
    rules.words = PieceRules::Words::kMarked;
    rules.contractions = Contractions::kNone;
    return rules;
  }
  rules.words = PieceRules::Words::kCased;
  rules.after_symbols = "\r\n/";
  if (regex == kGpt4o) return rules;
  if (regex != kTekken) return std::nullopt;
  rules.contractions = Contractions::kNone;
  rules.max_digits = 1;
  return rules;
}

// Per match, in steps of about a millisecond; matches of real expressions take microseconds.
constexpr int32_t kMatchTimeLimit = 5000;

// In Oniguruma ^ and $ are the ends of lines, and only \n ends a line, also for the dot.
constexpr uint32_t kOnigurumaLines = UREGEX_MULTILINE | UREGEX_UNIX_LINES;

// Matches what has another meaning in Oniguruma: \h is a hexadecimal digit there, (?m) lets the dot
// match \n, {1,3}+ repeats what has been repeated, and {2}? makes it optional.
constexpr char16_t kOtherMeaning[] =
    uR"(\\[wWbBhHvV]|\[:\^?(?:punct|xdigit):\]|\(\?[a-z\-]*m|\{[0-9,]+\}\+|\{[0-9]+\}\?)";

// Returns the first part of an expression that has another meaning in Oniguruma; "" without one.
std::string PartWithOtherMeaning(const std::string& regex) {
  const icu::UnicodeString pattern(kOtherMeaning);
  const icu::UnicodeString searched = icu::UnicodeString::fromUTF8(regex);
  UErrorCode error = U_ZERO_ERROR;
  icu::RegexMatcher matcher(pattern, searched, 0, error);
  std::string part;
  if (matcher.find(error)) matcher.group(error).toUTF8String(part);
  return part;
}

std::shared_ptr<const icu::RegexPattern> CompileExpression(const std::string& regex) {
  UErrorCode error = U_ZERO_ERROR;
  UParseError place;
  return std::shared_ptr<const icu::RegexPattern>(icu::RegexPattern::compile(
      icu::UnicodeString::fromUTF8(regex), kOnigurumaLines, place, error));
}

// Throws a TokenizationError unless `error` is success.
void CheckMatching(UErrorCode error, const icu::RegexPattern& regex, std::string_view text) {
  if (U_SUCCESS(error)) return;
  std::string expression;
  regex.pattern().toUTF8String(expression);
  throw TokenizationError(absl::StrCat(
      "tokenizer: cannot match the expression \"", absl::Utf8SafeCHexEscape(expression),
      "\" in a text of ", text.size(), " bytes: got ", u_errorName(error),
      " from ICU, expected a match within its limits of time and stack; shorten the text, or use "
      "a tokenizer with another expression"));
}

// Calls `piece` with the matches of `regex` and with the texts between them.
void SplitByExpression(const icu::RegexPattern& regex, std::string_view text,
                       absl::FunctionRef<void(std::string_view)> piece) {
  UErrorCode error = U_ZERO_ERROR;
  const std::unique_ptr<icu::RegexMatcher> matcher(regex.matcher(error));
  const icu::LocalUTextPointer input(
      utext_openUTF8(nullptr, text.data(), static_cast<int64_t>(text.size()), &error));
  CheckMatching(error, regex, text);
  matcher->setTimeLimit(kMatchTimeLimit, error);
  matcher->reset(input.getAlias());
  size_t done = 0;
  while (matcher->find(error)) {
    const auto begin = static_cast<size_t>(matcher->start64(error));
    const auto end = static_cast<size_t>(matcher->end64(error));
    if (begin > done) piece(text.substr(done, begin - done));
    if (end > begin) piece(text.substr(begin, end - begin));
    done = end;
  }
  CheckMatching(error, regex, text);
  if (done < text.size()) piece(text.substr(done));
}

void SplitAtDigits(size_t max_digits, std::string_view text,
                   absl::FunctionRef<void(std::string_view)> piece) {
  const CharacterScan scan(text);
  for (size_t i = 0; i < text.size();) {
    const size_t digits = scan.Run(i, kNumber, max_digits == 0 ? SIZE_MAX : max_digits);
    const size_t end = digits > i ? digits : scan.RunWithout(i, kNumber);
    piece(text.substr(i, end - i));
    i = end;
  }
}

void SplitAtIdeographs(std::string_view text, absl::FunctionRef<void(std::string_view)> piece) {
  const CharacterScan scan(text);
  for (size_t i = 0; i < text.size();) {
    const size_t ideographs = scan.Run(i, kIdeograph);
    const size_t end = ideographs > i ? ideographs : scan.RunWithout(i, kIdeograph);
    piece(text.substr(i, end - i));
    i = end;
  }
}

// Returns the end of the match that starts at `begin`, or 0.
size_t MatchEnd(const PieceRules& rules, const CharacterScan& scan, size_t begin) {
  using Contractions = PieceRules::Contractions;
  using Words = PieceRules::Words;
  if (rules.words == Words::kPlain && rules.contractions != Contractions::kNone) {
    const size_t end = scan.Contraction(begin, rules.contractions == Contractions::kAnyCase);
    if (end > begin) return end;
  }
  size_t end = rules.words == Words::kPlain   ? PlainWord(scan, rules, begin)
               : rules.words == Words::kCased ? CasedWord(scan, rules, begin)
                                              : MarkedWord(scan, begin);
  if (end == 0 && rules.words != Words::kMarked) end = Digits(scan, rules, begin);
  if (end == 0) end = Symbols(scan, rules, begin);
  return end != 0 ? end : Spaces(scan, rules, begin);
}

// Calls `piece` with the matches and with the texts between them, which only DeepSeek's rules have,
// from `begin` to the end of the text or its part, which is returned.
size_t SplitPart(const PieceRules& rules, const CharacterScan& scan, std::string_view text,
                 size_t begin, absl::FunctionRef<void(std::string_view)> piece) {
  size_t done = begin, i = begin;
  for (size_t length = scan.At(i).length; length > 0; length = scan.At(i).length) {
    const size_t end = MatchEnd(rules, scan, i);
    if (end == 0) {
      i += length;
      continue;
    }
    if (i > done) piece(text.substr(done, i - done));
    piece(text.substr(i, end - i));
    done = i = end;
  }
  if (i > done) piece(text.substr(done, i - done));
  return i;
}

// DeepSeek's three cuts at once: by `rules` within the parts between numbers, which are cut into
// three digits at most, and between ideographs and other text.
void SplitAllParts(const PieceRules& rules, std::string_view text,
                   absl::FunctionRef<void(std::string_view)> piece) {
  CharacterScan scan(text);
  for (size_t i = 0; i < text.size();) {
    scan.StartPart(i, kNumber | kIdeograph);
    const size_t digits = scan.Run(i, kNumber, rules.max_digits);
    if (digits > i) piece(text.substr(i, digits - i));
    i = digits > i ? digits : SplitPart(rules, scan, text, i, piece);
  }
}

// Returns `regex` with \r and \n as escapes. DeepSeek's file has the characters themselves.
std::string Escaped(std::string_view regex) {
  return absl::StrReplaceAll(std::string(regex), {{"\r", R"(\r)"}, {"\n", R"(\n)"}});
}

}  // namespace

absl::Status PieceScanner::AddExpression(std::string_view regex) {
  if (const std::optional<PieceRules> rules = RulesOf(Escaped(regex))) {
    Kind kind = Kind::kRules;
    if (rules->words == PieceRules::Words::kMarked && cuts_.size() == 2 &&
        cuts_[0].kind == Kind::kDigits && cuts_[0].rules.max_digits == rules->max_digits &&
        cuts_[1].kind == Kind::kIdeographs) {
      cuts_.clear();
      kind = Kind::kParts;
    }
    cuts_.push_back({.kind = kind, .rules = *rules});
    return absl::OkStatus();
  }
  if (regex == kDeepSeekDigits) {
    cuts_.push_back({.kind = Kind::kDigits, .rules = {.max_digits = 3}});
    return absl::OkStatus();
  }
  if (regex == kDeepSeekIdeographs) {
    cuts_.push_back({.kind = Kind::kIdeographs});
    return absl::OkStatus();
  }
  // ICU's \s lacks U+000B and U+0085.
  const std::string icu_regex = absl::StrReplaceAll(
      std::string(regex), {{R"(\s)", R"(\p{White_Space})"}, {R"(\S)", R"(\P{White_Space})"}});
  if (const std::string part = PartWithOtherMeaning(icu_regex); !part.empty()) {
    return absl::UnimplementedError(
        absl::StrCat(icu_regex, " uses ", part, ", whose meaning differs between libraries"));
  }
  Cut cut{.kind = Kind::kIcu, .regex = CompileExpression(icu_regex)};
  if (cut.regex == nullptr) {
    return absl::UnimplementedError(absl::StrCat(icu_regex, " is not an expression of ICU"));
  }
  cuts_.push_back(std::move(cut));
  return absl::OkStatus();
}

bool PieceScanner::MatchesAllText(std::string_view regex) {
  const std::optional<PieceRules> rules = RulesOf(Escaped(regex));
  return rules.has_value() && rules->words != PieceRules::Words::kMarked;
}

void PieceScanner::AddDigits(bool individual) {
  cuts_.push_back({.kind = Kind::kDigits, .rules = {.max_digits = individual ? size_t{1} : 0}});
}

bool PieceScanner::uses_icu() const {
  return std::ranges::any_of(cuts_, [](const Cut& cut) { return cut.kind == Kind::kIcu; });
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
  const auto cut_again = [&](std::string_view part) { SplitFrom(cut + 1, part, piece); };
  const bool last = cut + 1 == cuts_.size();
  const absl::FunctionRef<void(std::string_view)> next =
      last ? piece : absl::FunctionRef<void(std::string_view)>(cut_again);
  switch (cuts_[cut].kind) {
    case Kind::kRules:
      SplitPart(cuts_[cut].rules, CharacterScan(text), text, 0, next);
      return;
    case Kind::kParts:
      return SplitAllParts(cuts_[cut].rules, text, next);
    case Kind::kDigits:
      return SplitAtDigits(cuts_[cut].rules.max_digits, text, next);
    case Kind::kIdeographs:
      return SplitAtIdeographs(text, next);
    case Kind::kIcu:
      return SplitByExpression(*cuts_[cut].regex, text, next);
  }
}

}  // namespace braid
