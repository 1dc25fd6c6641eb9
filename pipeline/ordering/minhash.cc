#include "pipeline/ordering/minhash.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <utility>

#include "base/splitmix.h"
#include "base/status_macros.h"
#include "formats/word_runs.h"
#include "pipeline/ordering/document_blocks.h"
#include "retrieval/parallel_for.h"

namespace braid {
namespace {

constexpr uint64_t kMinHashSalt = 0x6d696e6861736821;
constexpr size_t kGroupMembers = 32;
constexpr size_t kMostRepeated = size_t{1} << 20;  // candidates

// The signatures of all documents: [n, bands x rows] values of 16 bits, of which different minima
// are equal by chance once in 65,536.
class Signatures {
 public:
  Signatures(int64_t n, const MinHashOptions& options)
      : size_(static_cast<size_t>(options.bands) * static_cast<size_t>(options.rows)),
        values_(static_cast<size_t>(n) * size_) {
    uint64_t state = options.seed ^ kMinHashSalt;
    for (size_t i = 0; i < size_; ++i) {
      multipliers_.push_back(NextSplitMix64(&state) | 1);
      increments_.push_back(NextSplitMix64(&state));
    }
  }

  // Computes one signature. Thread-safe for different documents.
  void Compute(uint32_t document, std::span<const uint64_t> grams) {
    uint16_t* const out = &values_[document * size_];
    for (size_t i = 0; i < size_; ++i) {
      const uint64_t multiplier = multipliers_[i], increment = increments_[i];
      // Linear functions of the grams, which are hashes themselves.
      uint64_t least = std::numeric_limits<uint64_t>::max();
      for (const uint64_t gram : grams) least = std::min(least, gram * multiplier + increment);
      out[i] = static_cast<uint16_t>(Scramble64(least) >> 48);
    }
  }

  std::span<const uint16_t> of(uint32_t document) const {
    return std::span(values_).subspan(document * size_, size_);
  }

 private:
  const size_t size_;
  std::vector<uint64_t> multipliers_, increments_;
  std::vector<uint16_t> values_;
};

// Finds pairs that agree in all values of a band but one, at most.
class BandSearch {
 public:
  BandSearch(const Signatures& signatures, std::span<const uint32_t> documents,
             const MinHashOptions& options)
      : signatures_(signatures), documents_(documents), rows_(static_cast<size_t>(options.rows)) {
    const auto size = static_cast<double>(options.bands) * options.rows;
    const double deviation =
        std::sqrt(std::max(0.0, options.min_jaccard * (1 - options.min_jaccard)) / size);
    min_equal_ = static_cast<size_t>(std::max(0.0, (options.min_jaccard - 4 * deviation) * size));
  }

  // Appends the pairs that agree in the rows of `band` other than `omitted`.
  void Find(size_t band, size_t omitted, std::vector<DuplicateCandidate>* candidates) {
    keys_.clear();
    for (const uint32_t document : documents_) {
      keys_.emplace_back(KeyOf(signatures_.of(document).subspan(band * rows_, rows_), omitted),
                         document);
    }
    std::ranges::sort(keys_);
    for (size_t begin = 0, end = 0; begin < keys_.size(); begin = end) {
      while (end < keys_.size() && keys_[end].first == keys_[begin].first) ++end;
      AddGroup(begin, end, candidates);
    }
  }

 private:
  static uint64_t KeyOf(std::span<const uint16_t> band, size_t omitted) {
    uint64_t key = 0;
    for (size_t row = 0; row < band.size(); ++row) {
      if (row != omitted) key = Mix64(key, band[row]);
    }
    return key;
  }

  void AddGroup(size_t begin, size_t end, std::vector<DuplicateCandidate>* candidates) const {
    for (size_t i = begin + 1; i < end; ++i) {
      for (size_t j = begin; j < std::min(i, begin + kGroupMembers); ++j) {
        const uint32_t later = keys_[i].second, earlier = keys_[j].second;
        if (NumEqual(later, earlier) >= min_equal_) candidates->push_back({later, earlier, 0});
      }
    }
  }

  size_t NumEqual(uint32_t a, uint32_t b) const {
    const std::span<const uint16_t> x = signatures_.of(a), y = signatures_.of(b);
    size_t equal = 0;
    for (size_t i = 0; i < x.size(); ++i) equal += x[i] == y[i] ? 1 : 0;
    return equal;
  }

  const Signatures& signatures_;
  const std::span<const uint32_t> documents_;
  const size_t rows_;
  size_t min_equal_ = 0;
  std::vector<std::pair<uint64_t, uint32_t>> keys_;
};

void KeepDistinct(std::vector<DuplicateCandidate>* candidates) {
  const auto pair = [](const DuplicateCandidate& c) { return std::pair(c.later, c.earlier); };
  std::ranges::sort(*candidates, {}, pair);
  const auto repeated = std::ranges::unique(*candidates, {}, pair);
  candidates->erase(repeated.begin(), repeated.end());
}

absl::Status ComputeSignatures(const DocumentStore& documents, std::span<const uint32_t> numbers,
                               const ProgressCallback& progress, Signatures* signatures) {
  const auto report = [&](int64_t begin, int64_t) { return progress(begin, documents.size()); };
  return ForDocumentBlocks(documents, numbers, report, [&](int64_t begin, int64_t end) {
    ParallelFor(end - begin, DocumentGrain(end - begin), [&](int64_t from, int64_t to) {
      for (int64_t i = begin + from; i < begin + to; ++i) {
        const uint32_t document = numbers[static_cast<size_t>(i)];
        signatures->Compute(document, CharacterNgrams(NormalizeText(documents.text(document))));
      }
    });
  });
}

}  // namespace

absl::StatusOr<std::vector<DuplicateCandidate>> MinHashCandidates(
    const DocumentStore& documents, std::span<const uint32_t> first, const MinHashOptions& options,
    const ProgressCallback& progress) {
  std::vector<uint32_t> distinct;
  for (uint32_t i = 0; i < first.size(); ++i) {
    if (first[i] == i) distinct.push_back(i);
  }
  Signatures signatures(documents.size(), options);
  RETURN_IF_ERROR(ComputeSignatures(documents, distinct, progress, &signatures));
  std::vector<DuplicateCandidate> candidates;
  size_t most = kMostRepeated;
  BandSearch search(signatures, distinct, options);
  for (int32_t band = 0; band < options.bands; ++band) {
    for (int32_t row = 0; row < options.rows; ++row) {
      RETURN_IF_ERROR(progress(documents.size(), documents.size()));
      search.Find(static_cast<size_t>(band), static_cast<size_t>(row), &candidates);
      // A pair that agrees in the whole band is found once for each row.
      if (candidates.size() < most) continue;
      KeepDistinct(&candidates);
      most = 2 * candidates.size() + kMostRepeated;
    }
    KeepDistinct(&candidates);
  }
  return candidates;
}

}  // namespace braid
