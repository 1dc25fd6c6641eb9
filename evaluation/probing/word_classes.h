// Sentences that contain exactly one of a set of words of middle frequency.
#ifndef BRAID_EVALUATION_PROBING_WORD_CLASSES_H_
#define BRAID_EVALUATION_PROBING_WORD_CLASSES_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace braid {

// The largest number of classes.
inline constexpr int kMostWordClasses = 1000;

class WordClasses {
 public:
  explicit WordClasses(std::span<const std::string> sentences);

  // Returns the class of each sentence, -1 for none, such that each of `num_classes` has at least
  // num_sentences / num_classes sentences; nullopt when the text has too few. The words are
  // successive by frequency, most frequent first (ties by the word). The first of the ranks 2 C,
  // 2 C - C / 4, ... for C classes is used with which the sentences suffice: SentEval has 1,000
  // classes and begins at rank 2,000.
  std::optional<std::vector<int32_t>> Assign(int num_classes, int64_t num_sentences) const;

 private:
  // Returns the classes with the words from rank `first` on, and counts their sentences.
  std::vector<int32_t> From(int32_t first, int num_classes, std::vector<int64_t>* counts) const;

  int32_t num_words_ = 0;
  std::vector<std::vector<int32_t>> ranks_;  // by sentence: the ranks of its words, from 0
};

}  // namespace braid

#endif  // BRAID_EVALUATION_PROBING_WORD_CLASSES_H_
