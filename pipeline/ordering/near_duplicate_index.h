// Which of a set of texts another text nearly repeats: all pairs, exactly,
// without comparing all pairs.
//
// Texts are sets of character 5-grams (deduplicate.h); A and B are near-duplicates
// when |A and B| / |A or B| >= t. Then they share at least t max(|A|, |B|) grams.
// So whatever the order of grams, the first |A| - ceil(t |A|) + c of A and the
// first |B| - ceil(t |B|) + c of B have c grams in common (prefix filtering;
// Chaudhuri et al., ICDE 2006, for c = 1; Wang et al., SIGMOD 2012). The index has
// the prefixes of its texts, with rare grams first, and compares only texts that
// share c of them.
//
//   NearDuplicateIndex index(texts, 0.8);
//   NearDuplicateIndex::Scratch scratch(index);
//   if (const auto match = index.Find(text, &scratch)) ...texts[match->text]
//
// Memory: about 11 bytes a character of its texts. Finding takes time linear in
// the text, besides sorting it, as long as texts are not made of the same rare grams.
#ifndef BRAID_PIPELINE_ORDERING_NEAR_DUPLICATE_INDEX_H_
#define BRAID_PIPELINE_ORDERING_NEAR_DUPLICATE_INDEX_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace braid {

// Immutable and thread-safe.
class NearDuplicateIndex {
 public:
  // `texts` need not outlive the call. Requires 0 < min_jaccard <= 1.
  NearDuplicateIndex(std::span<const std::string_view> texts, double min_jaccard);

  struct Match {
    uint32_t text = 0;  // number in `texts`
    double jaccard = 0;
  };

  // Working memory of one thread: 4 bytes a text of the index.
  class Scratch {
   public:
    explicit Scratch(const NearDuplicateIndex& index) : shared_(index.num_texts()) {}

   private:
    friend class NearDuplicateIndex;
    std::vector<uint32_t> shared_;   // prefix grams in common, by text; zero between calls
    std::vector<uint32_t> touched_;  // texts with some
    std::vector<uint64_t> grams_;    // of the text looked for
    std::vector<uint64_t> seen_;     // hash set of them
    std::vector<std::pair<uint8_t, uint64_t>> known_;  // (frequency, gram)
  };

  // The lowest-numbered text with Jaccard(5-grams of both, normalised) of at
  // least min_jaccard. A text without any character matches none.
  std::optional<Match> Find(std::string_view text, Scratch* scratch) const;

  size_t num_texts() const { return begins_.size() - 1; }

 private:
  // Shared prefix grams that are asked for, c above. More of them let fewer pairs
  // through, but lengthen the prefixes.
  static constexpr size_t kShared = 16;

  std::span<const uint64_t> grams(uint32_t text) const;
  uint8_t& frequency(uint64_t gram) { return frequencies_[gram >> kFrequencyShift]; }
  uint8_t frequency(uint64_t gram) const { return frequencies_[gram >> kFrequencyShift]; }
  size_t MinShared(size_t num_grams) const;
  size_t PrefixLength(size_t num_grams) const;
  void CountFrequencies();
  void IndexPrefixes();
  bool SharesEnough(size_t shared, size_t num_grams, uint32_t text) const;
  size_t MinCommon(size_t a, size_t b) const;
  std::vector<uint32_t> TakeCandidates(size_t num_grams, Scratch* scratch) const;
  void CountShared(std::span<const uint64_t> grams, Scratch* scratch) const;

  static constexpr int kFrequencyShift = 64 - 22;

  const double min_jaccard_;
  std::vector<uint64_t> grams_;  // of all texts, each ascending
  std::vector<size_t> begins_;   // [texts + 1] into grams_
  // In how many texts a gram is, at most 255. Grams that share a place share the
  // count: all that is needed is one order for all texts.
  std::vector<uint8_t> frequencies_;
  // Prefix grams, ascending, and the text of each; directory_ has the first place
  // of those with equal highest bits.
  std::vector<uint64_t> posting_grams_;
  std::vector<uint32_t> posting_texts_;
  std::vector<uint32_t> directory_;
  int directory_shift_ = 63;
};

}  // namespace braid

#endif  // BRAID_PIPELINE_ORDERING_NEAR_DUPLICATE_INDEX_H_
