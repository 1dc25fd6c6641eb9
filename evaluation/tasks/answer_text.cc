#include "evaluation/tasks/answer_text.h"

#include <unicode/locid.h>
#include <unicode/uchar.h>
#include <unicode/unistr.h>

#include <algorithm>
#include <map>

#include "absl/strings/ascii.h"
#include "absl/strings/str_join.h"

namespace braid {
namespace {

using icu::UnicodeString;

// Equals Python's \w, by which the authors' scripts find words.
bool IsWordCharacter(UChar32 c) {
  const int type = u_charType(c);
  return u_isalnum(c) || c == '_' || type == U_OTHER_NUMBER || type == U_LETTER_NUMBER;
}

bool IsAsciiPunctuation(UChar32 c) {
  return c < 0x80 && absl::ascii_ispunct(static_cast<unsigned char>(c));
}

bool IsQuotationMark(UChar32 c) { return c == 0x2018 || c == 0x2019 || c == 0xB4; }

// Removes ASCII punctuation; for TriviaQA, replaces it and quotation marks by spaces.
UnicodeString ReplacePunctuation(const UnicodeString& text, bool trivia_qa) {
  UnicodeString result;
  for (int32_t i = 0; i < text.length(); i = text.moveIndex32(i, 1)) {
    const UChar32 c = text.char32At(i);
    if (!IsAsciiPunctuation(c) && !(trivia_qa && IsQuotationMark(c))) {
      result.append(c);
    } else if (trivia_qa) {
      result.append(static_cast<UChar32>(' '));
    }
  }
  return result;
}

bool IsArticle(const UnicodeString& word) {
  return word == u"a" || word == u"an" || word == u"the";
}

// Replaces each \b(a|an|the)\b by a space, including an "a" between characters that are not part of
// a word, such as dashes outside ASCII.
UnicodeString ReplaceArticles(const UnicodeString& text) {
  UnicodeString result, word;
  const auto end_word = [&] {
    result.append(IsArticle(word) ? UnicodeString(u" ") : word);
    word.remove();
  };
  for (int32_t i = 0; i < text.length(); i = text.moveIndex32(i, 1)) {
    const UChar32 c = text.char32At(i);
    if (IsWordCharacter(c)) {
      word.append(c);
    } else {
      end_word();
      result.append(c);
    }
  }
  end_word();
  return result;
}

std::vector<std::string> SplitWords(const UnicodeString& text) {
  std::vector<std::string> words(1);
  for (int32_t i = 0; i < text.length(); i = text.moveIndex32(i, 1)) {
    const UChar32 c = text.char32At(i);
    if (!u_isUWhiteSpace(c)) {
      UnicodeString(c).toUTF8String(words.back());
    } else if (!words.back().empty()) {
      words.emplace_back();
    }
  }
  if (words.back().empty()) words.pop_back();
  return words;
}

std::vector<std::string> NormalizedWords(absl::string_view text,
                                         v1::AnswerNormalization normalization) {
  UnicodeString whole =
      UnicodeString::fromUTF8(icu::StringPiece(text.data(), static_cast<int32_t>(text.size())));
  if (normalization == v1::VERBATIM) return SplitWords(whole);
  whole.toLower(icu::Locale::getRoot());
  return SplitWords(ReplaceArticles(ReplacePunctuation(whole, normalization == v1::TRIVIAQA)));
}

double WordF1(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  if (a.empty() && b.empty()) return 1;
  std::map<std::string, int> left;
  for (const std::string& word : b) ++left[word];
  const auto common = std::ranges::count_if(a, [&](const std::string& word) {
    const auto found = left.find(word);
    return found != left.end() && found->second-- > 0;
  });
  return 2.0 * static_cast<double>(common) / static_cast<double>(a.size() + b.size());
}

}  // namespace

std::string LowerCase(absl::string_view text) {
  std::string lower;
  UnicodeString::fromUTF8(icu::StringPiece(text.data(), static_cast<int32_t>(text.size())))
      .toLower(icu::Locale::getRoot())
      .toUTF8String(lower);
  return lower;
}

std::vector<std::string> WordsBetweenSpaces(absl::string_view text) {
  return NormalizedWords(text, v1::VERBATIM);
}

std::string NormalizeAnswer(absl::string_view text, v1::AnswerNormalization normalization) {
  if (normalization == v1::VERBATIM) return std::string(absl::StripAsciiWhitespace(text));
  return absl::StrJoin(NormalizedWords(text, normalization), " ");
}

bool IsExactMatch(absl::string_view answer, std::span<const std::string> references,
                  v1::AnswerNormalization normalization) {
  const std::string normalized = NormalizeAnswer(answer, normalization);
  return std::ranges::any_of(references, [&](const std::string& reference) {
    return NormalizeAnswer(reference, normalization) == normalized;
  });
}

double AnswerF1(absl::string_view answer, std::span<const std::string> references,
                v1::AnswerNormalization normalization) {
  const std::vector<std::string> words = NormalizedWords(answer, normalization);
  double best = 0;
  for (const std::string& reference : references) {
    best = std::max(best, WordF1(words, NormalizedWords(reference, normalization)));
  }
  return best;
}

}  // namespace braid
