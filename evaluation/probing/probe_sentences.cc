#include "evaluation/probing/probe_sentences.h"

#include <algorithm>
#include <array>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/nearest_word.h"
#include "base/status_macros.h"
#include "evaluation/probing/swapped_sentences.h"
#include "evaluation/probing/word_classes.h"

namespace braid {
namespace {

constexpr std::array kNames = {"length", "words", "swapped_words", "swapped_clauses"};
// The most words of each bin.
constexpr std::array kBins = {8, 12, 16, 20, 25, kMostSentenceWords};

// The sentences that have a class, in the order of the pool.
struct Candidates {
  int num_classes = 2;
  std::vector<LabeledSentence> sentences;
  // The largest number of sentences that the text suffices for; at least the requested one if it
  // does.
  int64_t available = 0;
};

int64_t SmallestClass(const std::vector<LabeledSentence>& sentences, int num_classes) {
  std::vector<int64_t> counts(num_classes);
  for (const LabeledSentence& sentence : sentences) ++counts[sentence.label];
  return *std::ranges::min_element(counts);
}

Candidates ByLength(std::span<const std::string> sentences) {
  Candidates result{.num_classes = std::ssize(kBins), .sentences = {}};
  for (const std::string& sentence : sentences) {
    const auto bin = std::ranges::lower_bound(kBins, std::ssize(WordsOf(sentence)));
    result.sentences.push_back({sentence, static_cast<int32_t>(bin - kBins.begin())});
  }
  result.available = result.num_classes * SmallestClass(result.sentences, result.num_classes);
  return result;
}

// Returns the number of word classes for `num_sentences`.
int NumWords(int64_t num_sentences, std::optional<int> asked) {
  constexpr int64_t kSentencesPerWord = 40;
  return asked.value_or(static_cast<int>(
      std::clamp<int64_t>(num_sentences / kSentencesPerWord, 2, kMostWordClasses)));
}

Candidates ByWord(std::span<const std::string> sentences, int64_t num_sentences,
                  std::optional<int> num_words) {
  const WordClasses words(sentences);
  const auto assign = [&](int64_t count) {
    return words.Assign(NumWords(count, num_words), count);
  };
  Candidates result{.num_classes = NumWords(num_sentences, num_words), .sentences = {}};
  const auto classes = assign(num_sentences);
  if (!classes.has_value()) {
    int64_t too_many = std::min<int64_t>(num_sentences, std::ssize(sentences) + 1);
    while (too_many - result.available > 1) {
      const int64_t middle = result.available + (too_many - result.available) / 2;
      (assign(middle).has_value() ? result.available : too_many) = middle;
    }
    return result;
  }
  result.available = num_sentences;
  for (size_t i = 0; i < sentences.size(); ++i) {
    if ((*classes)[i] >= 0) result.sentences.push_back({sentences[i], (*classes)[i]});
  }
  return result;
}

Candidates BySwap(std::span<const std::string> sentences,
                  const std::function<std::optional<std::string>(std::string_view)>& swap) {
  Candidates result;
  for (const std::string& sentence : sentences) {
    std::optional<std::string> swapped = swap(sentence);
    if (!swapped.has_value()) continue;
    const auto label = static_cast<int32_t>(result.sentences.size() % 2);
    result.sentences.push_back({label == 1 ? *std::move(swapped) : sentence, label});
  }
  result.available = 2 * (std::ssize(result.sentences) / 2);
  return result;
}

// Returns how much more often each word occurs in lower case than not, first words apart.
std::unordered_map<std::string, int64_t> LowerCaseBalance(std::span<const std::string> sentences) {
  std::unordered_map<std::string, int64_t> balance;
  for (const std::string& sentence : sentences) {
    const std::vector<std::string_view> words = WordsOf(sentence);
    for (size_t i = 1; i < words.size(); ++i) {
      const std::string bare = BareWord(words[i]);
      balance[bare] += words[i].find(bare) != words[i].npos ? 1 : -1;
    }
  }
  return balance;
}

Candidates BySwappedClauses(std::span<const std::string> sentences) {
  const std::unordered_map<std::string, int64_t> balance = LowerCaseBalance(sentences);
  return BySwap(sentences, [&](std::string_view sentence) {
    return SwapClauses(sentence, [&](std::string_view word) {
      const auto found = balance.find(BareWord(word));
      return found != balance.end() && found->second > 0;
    });
  });
}

Candidates CandidatesOf(Probe probe, std::span<const std::string> sentences, int64_t num_sentences,
                        std::optional<int> num_words) {
  switch (probe) {
    case Probe::kLength:
      return ByLength(sentences);
    case Probe::kWords:
      return ByWord(sentences, num_sentences, num_words);
    case Probe::kSwappedWords:
      return BySwap(sentences, SwapWords);
    case Probe::kSwappedClauses:
      break;
  }
  return BySwappedClauses(sentences);
}

// Takes the first sentences of each class, first those to train on.
ProbeSentences Select(Probe probe, Candidates candidates, int64_t num_sentences) {
  ProbeSentences result{.name = kNames[static_cast<int>(probe)],
                        .num_classes = candidates.num_classes,
                        .training = {},
                        .test = {}};
  const int64_t of_class = num_sentences / candidates.num_classes;
  std::vector<int64_t> taken(candidates.num_classes);
  for (LabeledSentence& sentence : candidates.sentences) {
    const int64_t place = taken[sentence.label]++;
    if (place >= of_class) continue;
    (place < of_class * 4 / 5 ? result.training : result.test).push_back(std::move(sentence));
  }
  return result;
}

}  // namespace

std::vector<std::string> ProbeNames() { return {kNames.begin(), kNames.end()}; }

absl::StatusOr<std::vector<Probe>> ProbesNamed(std::span<const std::string> names) {
  std::array<bool, kNames.size()> wanted = {};
  for (const std::string& name : names) {
    const auto found = std::ranges::find(kNames, name);
    if (found == kNames.end()) {
      return absl::InvalidArgumentError(absl::StrCat("probes: got \"", name, "\", expected ",
                                                     absl::StrJoin(kNames, ", "),
                                                     DidYouMean(name, ProbeNames())));
    }
    if (std::exchange(wanted[found - kNames.begin()], true)) {
      return absl::InvalidArgumentError(
          absl::StrCat("probes: got ", name, " twice, expected each probe once"));
    }
  }
  std::vector<Probe> probes;
  for (size_t i = 0; i < kNames.size(); ++i) {
    if (names.empty() || wanted[i]) probes.push_back(static_cast<Probe>(i));
  }
  return probes;
}

absl::StatusOr<std::vector<ProbeSentences>> LabelSentences(std::span<const std::string> sentences,
                                                           std::span<const Probe> probes,
                                                           int64_t num_sentences,
                                                           std::optional<int> num_words) {
  std::vector<ProbeSentences> result;
  std::vector<std::string> lacking;
  int64_t enough = num_sentences;
  for (const Probe probe : probes) {
    Candidates candidates = CandidatesOf(probe, sentences, num_sentences, num_words);
    if (candidates.available / candidates.num_classes < num_sentences / candidates.num_classes) {
      enough = std::min(enough, candidates.available);
      lacking.push_back(
          absl::StrCat(candidates.available, " with ", kNames[static_cast<int>(probe)]));
      continue;
    }
    result.push_back(Select(probe, std::move(candidates), num_sentences));
  }
  if (lacking.empty()) return result;
  return absl::InvalidArgumentError(
      absl::StrCat("num_sentences: got ", num_sentences, ", but the text has ", sentences.size(),
                   " distinct sentences of ", kLeastSentenceWords, " to ", kMostSentenceWords,
                   " words, enough for at most ", absl::StrJoin(lacking, ", "),
                   enough < kLeastProbedSentences
                       ? absl::StrCat("; at least ", kLeastProbedSentences, " are needed; use ")
                       : "; lower --sentences to the smallest of these numbers, or use ",
                   "more text, other probes or a model with longer sequences"));
}

}  // namespace braid
