// Labeled sentences for probes of what vectors encode, constructed as those of SentEval (Conneau et
// al., arXiv 1805.01070; toolkit arXiv 1803.05449).
#ifndef BRAID_EVALUATION_PROBING_PROBE_SENTENCES_H_
#define BRAID_EVALUATION_PROBING_PROBE_SENTENCES_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "evaluation/probing/sentences.h"

namespace braid {

// length: 5-8, 9-12, 13-16, 17-20, 21-25 or 26-28 words (SentLen).
// words: which of up to 1,000 words of middle frequency a sentence contains, once and no other
// (WC). swapped_words: whether two neighboring words have been exchanged (BShift). swapped_clauses:
// whether the clauses around ", and", ", but" or ";" have been exchanged (CoordInv).
enum class Probe { kLength, kWords, kSwappedWords, kSwappedClauses };

std::vector<std::string> ProbeNames();

// Returns the probes with these names, in the order of Probe; all of them without names.
// InvalidArgument names the nearest one to an unknown name, and a name that is repeated.
absl::StatusOr<std::vector<Probe>> ProbesNamed(std::span<const std::string> names);

// The smallest number of sentences that users may request.
inline constexpr int32_t kLeastProbedSentences = 100;

struct LabeledSentence {
  std::string text;
  int32_t label = 0;
};

struct ProbeSentences {
  std::string name;
  int num_classes = 0;
  // Every class has as many sentences as each other one, of which four fifths, rounded down, are
  // `training`. No sentence of the pool is used twice.
  std::vector<LabeledSentence> training, test;
};

// Labels `num_sentences` of the sentences, which are in random order, rounded down to equal
// classes. Probe::kWords has `num_words` classes, by default one for every 40 sentences.
// InvalidArgument, with the numbers to pass instead, when the text has too few for one of
// `probes`; below kLeastProbedSentences, it needs more text.
absl::StatusOr<std::vector<ProbeSentences>> LabelSentences(
    std::span<const std::string> sentences, std::span<const Probe> probes, int64_t num_sentences,
    std::optional<int> num_words = std::nullopt);

}  // namespace braid

#endif  // BRAID_EVALUATION_PROBING_PROBE_SENTENCES_H_
