#include "trainer/evaluation/tasks/answer_text.h"

#include <algorithm>
#include <map>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"

namespace braid {
namespace {

// The second byte's letter of the two-byte characters that have a lower case in this
// function's alphabets; 0 for others.
int LowerTwoBytes(int code) {
  const bool latin = code >= 0xC0 && code <= 0xDE && code != 0xD7;
  const bool greek = code >= 0x391 && code <= 0x3A9 && code != 0x3A2;
  const bool cyrillic = code >= 0x410 && code <= 0x42F;
  if (latin || greek || cyrillic) return code + 0x20;
  return code >= 0x400 && code <= 0x40F ? code + 0x50 : code;
}

std::string Lower(absl::string_view text) {
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if ((byte & 0xE0) != 0xC0 || i + 1 == text.size()) {
      result += absl::ascii_tolower(byte);
      continue;
    }
    const int code = LowerTwoBytes((byte & 0x1F) << 6 | (text[++i] & 0x3F));
    result += static_cast<char>(0xC0 | code >> 6);
    result += static_cast<char>(0x80 | (code & 0x3F));
  }
  return result;
}

// Every ASCII punctuation character replaced.
std::string ReplacePunctuation(absl::string_view text, const char* with) {
  std::string result;
  for (const char c : text) {
    if (absl::ascii_ispunct(static_cast<unsigned char>(c))) {
      result += with;
    } else {
      result += c;
    }
  }
  return result;
}

std::vector<std::string> WordsWithoutArticles(absl::string_view text) {
  std::vector<std::string> words =
      absl::StrSplit(text, absl::ByAnyChar(" \t\n\r\f\v"), absl::SkipEmpty());
  std::erase_if(
      words, [](const std::string& word) { return word == "a" || word == "an" || word == "the"; });
  return words;
}

std::vector<std::string> NormalizedWords(absl::string_view text,
                                         v1::AnswerNormalization normalization) {
  if (normalization == v1::VERBATIM) {
    return absl::StrSplit(text, absl::ByAnyChar(" \t\n\r\f\v"), absl::SkipEmpty());
  }
  const std::string lower = Lower(text);
  if (normalization != v1::TRIVIAQA) {
    return WordsWithoutArticles(ReplacePunctuation(lower, ""));
  }
  return WordsWithoutArticles(
      absl::StrReplaceAll(ReplacePunctuation(lower, " "), {{"‘", " "}, {"’", " "}, {"´", " "}}));
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

std::string NormalizeAnswer(absl::string_view text, v1::AnswerNormalization normalization) {
  if (normalization == v1::VERBATIM) return std::string(text);
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
