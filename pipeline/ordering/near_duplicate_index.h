// An index of texts that finds those which another text nearly repeats: an exact similarity join
// that does not compare all pairs.
//
// Texts are sets of character 5-grams (deduplicate.h); A and B are near-duplicates when
// |A and B| / |A or B| >= t. Then they share at least t max(|A|, |B|) grams. It follows, for any
// global order of the grams, that the first |A| - ceil(t |A|) + c grams of A and the first
// |B| - ceil(t |B|) + c grams of B have at least c in common (prefix filtering: Chaudhuri et al.,
// ICDE 2006, for c = 1; Wang et al., SIGMOD 2012). The index holds the prefixes of its texts, with
// rare grams first, and computes the similarity only of texts that share c prefix grams.
//
//   NearDuplicateIndex index(texts, 0.8);
//   NearDuplicateIndex::Scratch scratch(index);
//   if (const auto match = index.Find(text, &scratch)) ...texts[match->text]
//
// Memory: about 11 bytes per character of its texts. Building takes O(g log g) for g grams. A
// lookup takes expected time linear in the text plus the comparison of its candidates, of which
// there are few unless many texts consist of the same rare grams.
#ifndef BRAID_PIPELINE_ORDERING_NEAR_DUPLICATE_INDEX_H_
#define BRAID_PIPELINE_ORDERING_NEAR_DUPLICATE_INDEX_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace braid {

// An immutable, thread-safe index.
class NearDuplicateIndex {
 public:
  // Indexes the texts, which need not outlive the call. Requires: 0 < min_jaccard <= 1.
  NearDuplicateIndex(std::span<const std::string_view> texts, double min_jaccard);

  struct Match {
    uint32_t text = 0;  // number in `texts`
    double jaccard = 0;
  };

  // Working memory of one thread: 4 bytes per text of the index.
  class Scratch {
   public:
    explicit Scratch(const NearDuplicateIndex& index) : shared_(index.num_texts()) {}

   private:
    friend class NearDuplicateIndex;
    std::vector<uint32_t> shared_;   // prefix grams in common, by text; zero between calls
    std::vector<uint32_t> touched_;  // texts whose count in shared_ is not zero
    std::vector<uint64_t> grams_;    // grams of the query text
    std::vector<uint64_t> seen_;     // hash set of grams_
    std::vector<std::pair<uint8_t, uint64_t>> known_;  // (frequency, gram)
  };

  // Returns the text with the lowest number whose Jaccard similarity with `text` is at least
  // min_jaccard, or nullopt. An empty text matches no text.
  // Guarantees: the result equals that of comparing all texts.
  std::optional<Match> Find(std::string_view text, Scratch* scratch) const;

  size_t num_texts() const { return begins_.size() - 1; }

 private:
  // The number of shared prefix grams that makes a candidate, c above. A larger number gives fewer
  // candidates but longer prefixes.
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
  std::vector<uint64_t> grams_;  // for all texts, each ascending
  std::vector<size_t> begins_;   // [texts + 1] into grams_
  // The number of texts that contain a gram, at most 255. Grams with equal high bits share a count,
  // which is harmless: the prefixes only need the same order of grams in all texts.
  std::vector<uint8_t> frequencies_;
  // The prefix grams, ascending, and the text of each. directory_[b] is the first position of the
  // grams whose highest bits are b.
  std::vector<uint64_t> posting_grams_;
  std::vector<uint32_t> posting_texts_;
  std::vector<uint32_t> directory_;
  int directory_shift_ = 63;
};

}  // namespace braid

#endif  // BRAID_PIPELINE_ORDERING_NEAR_DUPLICATE_INDEX_H_
