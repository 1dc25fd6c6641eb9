// Sentences of a text whose words are separated by spaces.
#ifndef BRAID_EVALUATION_PROBING_SENTENCES_H_
#define BRAID_EVALUATION_PROBING_SENTENCES_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"

namespace braid {

// Word counts of the sentences that probes use.
inline constexpr int kLeastSentenceWords = 5;
inline constexpr int kMostSentenceWords = 28;

// Returns the sentences of a text, each as its words with single spaces between them. Blank lines
// end a paragraph, other white space separates words. A sentence begins with a capital letter (or a
// character outside of ASCII), ends with ".", "!" or "?" before such a word or the end of the
// paragraph, and has kLeastSentenceWords to kMostSentenceWords words, four fifths of them with a
// letter. Periods of initials and of common English abbreviations end no sentence.
std::vector<std::string> SplitSentences(std::string_view text);

// Returns the words of a sentence of SplitSentences.
std::vector<std::string_view> WordsOf(std::string_view sentence);

// Returns a word in lower case (ASCII letters) without the ASCII punctuation around it.
std::string BareWord(std::string_view word);

// The distinct sentences of a corpus, as a seeded random sample of at most `most` of them.
// Sentences that differ in nothing but case and punctuation count once.
class SentencePool {
 public:
  explicit SentencePool(uint64_t seed, size_t most = size_t{1} << 20) : seed_(seed), most_(most) {}

  void Add(std::string_view text);

  // Returns InvalidArgument when most letters belong to scripts that do not separate words by
  // spaces, such as Chinese, Japanese and Thai.
  absl::Status CheckScript() const;

  // Returns the sentences in a random order that depends on nothing but seed and sentences.
  std::vector<std::string> Sentences() const;

 private:
  const uint64_t seed_;
  const size_t most_;
  std::map<uint64_t, std::string> sentences_;  // by hash
  int64_t num_letters_ = 0, num_unspaced_ = 0;
};

}  // namespace braid

#endif  // BRAID_EVALUATION_PROBING_SENTENCES_H_
