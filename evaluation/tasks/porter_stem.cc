#include "evaluation/tasks/porter_stem.h"

#include <algorithm>
#include <string_view>
#include <vector>

namespace braid {
namespace {

struct SuffixRule {
  std::string_view suffix, replacement;
};

bool IsConsonant(std::string_view word, size_t i) {
  switch (word[i]) {
    case 'a':
    case 'e':
    case 'i':
    case 'o':
    case 'u':
      return false;
    case 'y':
      return i == 0 || !IsConsonant(word, i - 1);
    default:
      return true;
  }
}

// Returns m of the form [C](VC)^m[V].
int Measure(std::string_view stem) {
  int count = 0;
  for (size_t i = 1; i < stem.size(); ++i) {
    count += IsConsonant(stem, i) && !IsConsonant(stem, i - 1);
  }
  return count;
}

bool HasVowel(std::string_view stem) {
  for (size_t i = 0; i < stem.size(); ++i) {
    if (!IsConsonant(stem, i)) return true;
  }
  return false;
}

bool EndsDouble(std::string_view word) {
  const size_t n = word.size();
  return n >= 2 && word[n - 1] == word[n - 2] && IsConsonant(word, n - 1);
}

// Consonant, vowel, consonant, of which the last is not w, x or y.
bool EndsShort(std::string_view word) {
  const size_t n = word.size();
  return n >= 3 && IsConsonant(word, n - 3) && !IsConsonant(word, n - 2) &&
         IsConsonant(word, n - 1) && word[n - 1] != 'w' && word[n - 1] != 'x' && word[n - 1] != 'y';
}

// Applies the first rule whose suffix the word has, if the stem's measure exceeds `least`.
void Replace(const std::vector<SuffixRule>& rules, int least, std::string* word) {
  for (const SuffixRule& rule : rules) {
    if (!word->ends_with(rule.suffix)) continue;
    const std::string_view stem =
        std::string_view(*word).substr(0, word->size() - rule.suffix.size());
    if (Measure(stem) > least) *word = std::string(stem).append(rule.replacement);
    return;
  }
}

void RemovePlural(std::string* word) {
  if (word->ends_with("sses") || word->ends_with("ies")) {
    word->resize(word->size() - 2);
  } else if (word->ends_with("s") && !word->ends_with("ss")) {
    word->pop_back();
  }
}

void RemovePast(std::string* word) {
  const std::string_view all = *word;
  if (all.ends_with("eed")) {
    if (Measure(all.substr(0, all.size() - 3)) > 0) word->pop_back();
    return;
  }
  const size_t cut = all.ends_with("ed") ? 2 : all.ends_with("ing") ? 3 : 0;
  if (cut == 0 || !HasVowel(all.substr(0, all.size() - cut))) return;
  word->resize(word->size() - cut);
  if (word->ends_with("at") || word->ends_with("bl") || word->ends_with("iz")) {
    *word += 'e';
  } else if (EndsDouble(*word) && word->back() != 'l' && word->back() != 's' &&
             word->back() != 'z') {
    word->pop_back();
  } else if (Measure(*word) == 1 && EndsShort(*word)) {
    *word += 'e';
  }
}

void ReplaceFinalY(std::string* word) {
  if (word->ends_with("y") && HasVowel(std::string_view(*word).substr(0, word->size() - 1))) {
    word->back() = 'i';
  }
}

const std::vector<SuffixRule>& DoubleSuffixes() {
  static const std::vector<SuffixRule>* const rules = new std::vector<SuffixRule>{
      {"ational", "ate"}, {"tional", "tion"}, {"enci", "ence"},   {"anci", "ance"},
      {"izer", "ize"},    {"abli", "able"},   {"alli", "al"},     {"entli", "ent"},
      {"eli", "e"},       {"ousli", "ous"},   {"ization", "ize"}, {"ation", "ate"},
      {"ator", "ate"},    {"alism", "al"},    {"iveness", "ive"}, {"fulness", "ful"},
      {"ousness", "ous"}, {"aliti", "al"},    {"iviti", "ive"},   {"biliti", "ble"}};
  return *rules;
}

const std::vector<SuffixRule>& FullSuffixes() {
  static const std::vector<SuffixRule>* const rules =
      new std::vector<SuffixRule>{{"icate", "ic"}, {"ative", ""}, {"alize", "al"}, {"iciti", "ic"},
                                  {"ical", "ic"},  {"ful", ""},   {"ness", ""}};
  return *rules;
}

const std::vector<SuffixRule>& LastSuffixes() {
  static const std::vector<SuffixRule>* const rules = new std::vector<SuffixRule>{
      {"ement", ""}, {"ance", ""}, {"ence", ""}, {"able", ""}, {"ible", ""}, {"ment", ""},
      {"ant", ""},   {"ent", ""},  {"ism", ""},  {"ate", ""},  {"iti", ""},  {"ous", ""},
      {"ive", ""},   {"ize", ""},  {"al", ""},   {"er", ""},   {"ic", ""},   {"ou", ""}};
  return *rules;
}

void RemoveLastSuffix(std::string* word) {
  if (!word->ends_with("ion")) return Replace(LastSuffixes(), 1, word);
  const std::string_view stem = std::string_view(*word).substr(0, word->size() - 3);
  if (Measure(stem) > 1 && (stem.ends_with("s") || stem.ends_with("t"))) {
    word->resize(word->size() - 3);
  }
}

void RemoveFinalE(std::string* word) {
  if (word->ends_with("e")) {
    const std::string_view stem = std::string_view(*word).substr(0, word->size() - 1);
    const int measure = Measure(stem);
    if (measure > 1 || (measure == 1 && !EndsShort(stem))) word->pop_back();
  }
  if (word->ends_with("ll") && Measure(std::string_view(*word).substr(0, word->size() - 1)) > 1) {
    word->pop_back();
  }
}

}  // namespace

std::string PorterStem(std::string word) {
  const auto is_letter = [](char c) { return c >= 'a' && c <= 'z'; };
  if (word.size() <= 2 || !std::ranges::all_of(word, is_letter)) return word;
  RemovePlural(&word);
  RemovePast(&word);
  ReplaceFinalY(&word);
  Replace(DoubleSuffixes(), 0, &word);
  Replace(FullSuffixes(), 0, &word);
  RemoveLastSuffix(&word);
  RemoveFinalE(&word);
  return word;
}

}  // namespace braid
