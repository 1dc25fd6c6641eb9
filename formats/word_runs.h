// Runs of 13 consecutive words, by which texts are compared for shared passages (Brown et al. 2020,
// arXiv 2005.14165, appendix C).
//
// A word is a maximal sequence of characters without white space in the normalized text, or a
// single ideograph or kana, which are written without spaces. A text of w words has w - 12 runs, or
// none.
#ifndef BRAID_FORMATS_WORD_RUNS_H_
#define BRAID_FORMATS_WORD_RUNS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace braid {

inline constexpr size_t kWordsPerRun = 13;

// Returns the text with ASCII letters in lower case, without ASCII punctuation, with runs of white
// space replaced by one space and without white space at the ends. A text that has only punctuation
// and white space is returned unchanged, so that "----" and "####" remain different.
std::string NormalizeText(std::string_view text);

// Iterates over the runs of a normalized text in text order, in constant memory.
//
//   for (WordRuns runs(NormalizeText(text)); runs.Next();) Use(runs.hash(), runs.text());
class WordRuns {
 public:
  explicit WordRuns(std::string normalized) : text_(std::move(normalized)) {}

  // Moves to the next run; returns false after the last one.
  bool Next();

  // A 64-bit hash of the words of the current run, stable across machines and releases.
  uint64_t hash() const;
  // The bytes of the current run and their position in the normalized text.
  std::string_view text() const { return std::string_view(text_).substr(begin_, end_ - begin_); }
  size_t begin() const { return begin_; }

  const std::string& normalized() const { return text_; }

 private:
  const std::string text_;
  // The last kWordsPerRun words, the oldest at num_words_ % kWordsPerRun.
  std::array<size_t, kWordsPerRun> begins_ = {};
  std::array<uint64_t, kWordsPerRun> hashes_ = {};
  uint64_t rolling_ = 0;  // sum over the words of hash * kBase^(distance from the last word)
  size_t num_words_ = 0;
  size_t begin_ = 0, end_ = 0;
};

}  // namespace braid

#endif  // BRAID_FORMATS_WORD_RUNS_H_
