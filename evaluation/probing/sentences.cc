#include "evaluation/probing/sentences.h"

#include <algorithm>
#include <array>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/splitmix.h"
#include "base/utf8.h"

namespace braid {
namespace {

constexpr std::array<std::string_view, 24> kAbbreviations = {
    "capt", "co",  "col", "corp", "dr", "e.g", "etc", "fig",  "gen", "gov", "i.e", "inc",
    "jr",   "ltd", "mr",  "mrs",  "ms", "mt",  "no",  "prof", "rev", "sr",  "st",  "vs"};
constexpr std::array<std::string_view, 5> kQuotes = {"\xE2\x80\x9C", "\xE2\x80\x9D", "\xE2\x80\x98",
                                                     "\xE2\x80\x99", "\xC2\xBB"};

std::string AsciiLower(std::string_view text) { return absl::AsciiStrToLower(std::string(text)); }

bool IsOutsideAscii(char c) { return static_cast<unsigned char>(c) >= 0x80; }

bool HasLetter(std::string_view word) {
  return std::ranges::any_of(word,
                             [](char c) { return absl::ascii_isalpha(c) || IsOutsideAscii(c); });
}

// Returns the word without the quotes and brackets before it.
std::string_view WithoutOpeners(std::string_view word) {
  for (bool found = true; found && !word.empty();) {
    found = std::string_view("\"'([{").find(word[0]) != std::string_view::npos;
    if (found) word.remove_prefix(1);
    for (const std::string_view quote : kQuotes) {
      if (!word.starts_with(quote)) continue;
      word.remove_prefix(quote.size());
      found = true;
    }
  }
  return word;
}

// Returns the word without the quotes and brackets after it.
std::string_view WithoutClosers(std::string_view word) {
  for (bool found = true; found && !word.empty();) {
    found = std::string_view("\"')]}").find(word.back()) != std::string_view::npos;
    if (found) word.remove_suffix(1);
    for (const std::string_view quote : kQuotes) {
      if (!word.ends_with(quote)) continue;
      word.remove_suffix(quote.size());
      found = true;
    }
  }
  return word;
}

bool IsAbbreviation(std::string_view word) {
  word = WithoutOpeners(word);
  if (word.size() == 2 && absl::ascii_isupper(word[0])) return word[0] != 'I';
  const std::string bare = AsciiLower(word.substr(0, word.size() - 1));
  return std::ranges::find(kAbbreviations, bare) != kAbbreviations.end();
}

bool EndsSentence(std::string_view word) {
  word = WithoutClosers(word);
  if (word.empty()) return false;
  if (word.back() == '!' || word.back() == '?') return true;
  return word.back() == '.' && !IsAbbreviation(word);
}

bool MayBeginSentence(std::string_view word) {
  word = WithoutOpeners(word);
  return !word.empty() && (absl::ascii_isupper(word[0]) || IsOutsideAscii(word[0]));
}

// Appends words [begin, end) as a sentence if they may be one.
void Take(const std::vector<std::string_view>& words, size_t begin, size_t end,
          std::vector<std::string>* sentences) {
  const auto count = static_cast<int>(end - begin);
  if (count < kLeastSentenceWords || count > kMostSentenceWords) return;
  if (!MayBeginSentence(words[begin])) return;
  int with_letters = 0;
  std::string text;
  for (size_t i = begin; i < end; ++i) {
    with_letters += HasLetter(words[i]);
    if (i > begin) text += ' ';
    text += words[i];
  }
  if (5 * with_letters >= 4 * count) sentences->push_back(std::move(text));
}

void SplitParagraph(std::string_view paragraph, std::vector<std::string>* sentences) {
  std::vector<std::string_view> words;
  for (size_t i = 0; i < paragraph.size();) {
    while (i < paragraph.size() && absl::ascii_isspace(paragraph[i])) ++i;
    const size_t begin = i;
    while (i < paragraph.size() && !absl::ascii_isspace(paragraph[i])) ++i;
    if (i > begin) words.push_back(paragraph.substr(begin, i - begin));
  }
  size_t begin = 0;
  for (size_t i = 0; i < words.size(); ++i) {
    if (!EndsSentence(words[i])) continue;
    const bool starts_next = i + 1 == words.size() || MayBeginSentence(words[i + 1]);
    if (!starts_next) continue;
    Take(words, begin, i + 1, sentences);
    begin = i + 1;
  }
}

// Returns whether a character belongs to a script without spaces between words: Thai, Lao, Myanmar,
// Khmer, kana, Han.
bool IsUnspaced(uint32_t c) {
  constexpr std::array<std::pair<uint32_t, uint32_t>, 8> kRanges = {{{0x0E00, 0x0EFF},
                                                                     {0x1000, 0x109F},
                                                                     {0x1780, 0x17FF},
                                                                     {0x3040, 0x30FF},
                                                                     {0x3400, 0x4DBF},
                                                                     {0x4E00, 0x9FFF},
                                                                     {0xF900, 0xFAFF},
                                                                     {0x20000, 0x3FFFF}}};
  return std::ranges::any_of(kRanges, [&](auto r) { return c >= r.first && c <= r.second; });
}

// Returns the character of valid UTF-8 that starts at `at`.
uint32_t CharacterAt(std::string_view text, size_t at) {
  const size_t length = std::min(EncodedLength(text[at]), text.size() - at);
  uint32_t value =
      static_cast<unsigned char>(text[at]) & (length == 1 ? 0x7F : 0xFF >> (length + 1));
  for (size_t i = 1; i < length; ++i) value = value << 6 | (text[at + i] & 0x3F);
  return value;
}

// Returns a hash that ignores case and punctuation.
uint64_t HashOf(std::string_view sentence, uint64_t seed) {
  std::string bare;
  for (const std::string_view word : WordsOf(sentence)) absl::StrAppend(&bare, BareWord(word), " ");
  return Mix64(seed, bare);
}

}  // namespace

std::vector<std::string> SplitSentences(std::string_view text) {
  std::vector<std::string> sentences;
  size_t begin = 0, line = 0;
  bool blank = true;
  for (size_t i = 0; i <= text.size(); ++i) {
    if (i < text.size() && text[i] != '\n') {
      blank = blank && absl::ascii_isspace(text[i]);
      continue;
    }
    if (blank || i == text.size()) {
      SplitParagraph(text.substr(begin, (blank ? line : i) - begin), &sentences);
      begin = i;
    }
    line = i + 1;
    blank = true;
  }
  return sentences;
}

std::vector<std::string_view> WordsOf(std::string_view sentence) {
  std::vector<std::string_view> words;
  size_t begin = 0;
  for (size_t space = sentence.find(' '); space != sentence.npos;
       space = sentence.find(' ', begin)) {
    words.push_back(sentence.substr(begin, space - begin));
    begin = space + 1;
  }
  words.push_back(sentence.substr(begin));
  return words;
}

std::string BareWord(std::string_view word) {
  while (!word.empty() && absl::ascii_ispunct(word.front())) word.remove_prefix(1);
  while (!word.empty() && absl::ascii_ispunct(word.back())) word.remove_suffix(1);
  return AsciiLower(word);
}

void SentencePool::Add(std::string_view text) {
  for (size_t i = 0; i < text.size(); i += EncodedLength(text[i])) {
    const uint32_t c = CharacterAt(text, i);
    num_letters_ += c >= 0x80 || absl::ascii_isalpha(static_cast<unsigned char>(c));
    num_unspaced_ += IsUnspaced(c);
  }
  for (std::string& sentence : SplitSentences(text)) {
    const uint64_t hash = HashOf(sentence, seed_);
    if (sentences_.size() >= most_ && hash > sentences_.rbegin()->first) continue;
    sentences_.try_emplace(hash, std::move(sentence));
    if (sentences_.size() > most_) sentences_.erase(std::prev(sentences_.end()));
  }
}

absl::Status SentencePool::CheckScript() const {
  if (2 * num_unspaced_ <= num_letters_) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "paths: ", 100 * num_unspaced_ / num_letters_,
      " % of the letters belong to scripts without spaces between words (such as Chinese, Japanese "
      "and Thai), expected a language whose words are separated by spaces"));
}

std::vector<std::string> SentencePool::Sentences() const {
  std::vector<std::string> sentences;
  for (const auto& [hash, sentence] : sentences_) sentences.push_back(sentence);
  return sentences;
}

}  // namespace braid
