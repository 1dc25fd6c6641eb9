#include "pipeline/ordering/deduplicate.h"

// A gram has a few bytes, so the call of a library function would cost more than hashing it.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <optional>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "base/check.h"
#include "base/status_macros.h"
#include "base/utf8.h"

namespace braid {
namespace {

struct TextHash {
  uint64_t high = 0;
  uint64_t low = 0;
  auto operator<=>(const TextHash&) const = default;
};

TextHash HashOf(std::string_view normalized) {
  const XXH128_hash_t hash = XXH3_128bits(normalized.data(), normalized.size());
  return {hash.high64, hash.low64};
}

// Returns, for each document, the first document with the same normalized text.
absl::StatusOr<std::vector<uint32_t>> FirstOfEqualTexts(int64_t n, const TextAccess& text) {
  std::vector<std::pair<TextHash, uint32_t>> hashes;
  hashes.reserve(n);
  for (int64_t i = 0; i < n; ++i) {
    ASSIGN_OR_RETURN(const std::string content, text(static_cast<uint32_t>(i)));
    hashes.emplace_back(HashOf(NormalizeText(content)), static_cast<uint32_t>(i));
  }
  std::sort(hashes.begin(), hashes.end());
  std::vector<uint32_t> first(n);
  for (size_t i = 0; i < hashes.size(); ++i) {
    const bool repeats = i > 0 && hashes[i].first == hashes[i - 1].first;
    first[hashes[i].second] = repeats ? first[hashes[i - 1].second] : hashes[i].second;
  }
  return first;
}

// Returns the pairs of documents that an edge of the graph joins with a cosine of at least
// min_cosine, ascending by (later, earlier), each once with its higher score. Only
// the first of documents with equal texts appears; the others are removed as exact duplicates.
std::vector<DuplicateCandidate> Candidates(const NeighborLists& lists,
                                           std::span<const uint32_t> first, double min_cosine) {
  std::vector<DuplicateCandidate> candidates;
  for (size_t i = 0; i < lists.ids.size(); ++i) {
    const uint32_t id = lists.ids[i];
    const auto row = static_cast<uint32_t>(i / lists.k);
    if (id == NeighborLists::kPadding || id == row || !(lists.scores[i] >= min_cosine)) continue;
    // The edges of an exact copy count as edges of the first document with its text.
    const auto [earlier, later] = std::minmax(first[id], first[row]);
    if (earlier != later) candidates.push_back({later, earlier, lists.scores[i]});
  }
  std::sort(candidates.begin(), candidates.end(),
            [](const DuplicateCandidate& a, const DuplicateCandidate& b) {
              return std::tuple(a.later, a.earlier, -a.cosine) <
                     std::tuple(b.later, b.earlier, -b.cosine);
            });
  const auto same_pair = [](const DuplicateCandidate& a, const DuplicateCandidate& b) {
    return a.later == b.later && a.earlier == b.earlier;
  };
  candidates.erase(std::unique(candidates.begin(), candidates.end(), same_pair), candidates.end());
  return candidates;
}

// A cache of the 5-gram sets of documents, because one original is often compared with many copies
// in succession. It is emptied when it reaches its budget.
class NgramCache {
 public:
  explicit NgramCache(const TextAccess& text) : text_(text) {}

  absl::StatusOr<std::vector<uint64_t>> Take(uint32_t document) {
    if (const auto found = sets_.find(document); found != sets_.end()) return found->second;
    ASSIGN_OR_RETURN(const std::string content, text_(document));
    std::vector<uint64_t> set = CharacterNgrams(NormalizeText(content));
    if (size_ + set.size() > kMaxGrams) {
      sets_.clear();
      size_ = 0;
    }
    size_ += set.size();
    return sets_.emplace(document, std::move(set)).first->second;
  }

 private:
  static constexpr size_t kMaxGrams = size_t{8} << 20;  // 64 MiB
  const TextAccess& text_;
  std::unordered_map<uint32_t, std::vector<uint64_t>> sets_;
  size_t size_ = 0;
};

// Returns the first earlier document that is kept and that the later document of `candidates` (the
// same in all) nearly duplicates, if any.
absl::StatusOr<std::optional<DuplicatePair>> NearDuplicate(
    std::span<const DuplicateCandidate> candidates, const std::vector<bool>& removed,
    double min_jaccard, NgramCache* ngrams, int64_t* num_compared) {
  std::optional<std::vector<uint64_t>> later_set;
  for (const DuplicateCandidate& candidate : candidates) {
    if (removed[candidate.earlier]) continue;
    if (!later_set.has_value()) {
      ASSIGN_OR_RETURN(later_set, ngrams->Take(candidate.later));
    }
    ASSIGN_OR_RETURN(const std::vector<uint64_t> earlier_set, ngrams->Take(candidate.earlier));
    ++*num_compared;
    const double jaccard = Jaccard(*later_set, earlier_set);
    if (jaccard >= min_jaccard) {
      return DuplicatePair{candidate.later, candidate.earlier, false, candidate.cosine, jaccard};
    }
  }
  return std::nullopt;
}

// Returns the pair of an exact copy of `first`. If `first` was itself removed as a near-duplicate,
// the same document is kept instead of the copy.
DuplicatePair CopyOf(uint32_t first, uint32_t document, const std::vector<DuplicatePair>& pairs) {
  const auto found =
      std::lower_bound(pairs.begin(), pairs.end(), first,
                       [](const DuplicatePair& pair, uint32_t i) { return pair.removed < i; });
  if (found == pairs.end() || found->removed != first) return {document, first, true, 1, 1};
  DuplicatePair pair = *found;
  pair.removed = document;
  pair.exact = true;
  return pair;
}

void Remove(const DuplicatePair& pair, Duplicates* result) {
  result->removed.push_back(pair.removed);
  ++(pair.exact ? result->num_exact : result->num_near);
  result->pairs.push_back(pair);
}

// Returns the offset of each code point, followed by the length of the text.
std::vector<size_t> CodePointBorders(std::string_view text) {
  std::vector<size_t> borders;
  borders.reserve(text.size() + 1);
  for (size_t i = 0; i < text.size(); ++i) {
    if (!IsContinuationByte(text[i])) borders.push_back(i);
  }
  borders.push_back(text.size());
  return borders;
}

}  // namespace

absl::StatusOr<Duplicates> FindDuplicates(const NeighborLists& lists, int64_t num_documents,
                                          const TextAccess& text,
                                          const DeduplicateOptions& options) {
  BRAID_CHECK(static_cast<int64_t>(lists.ids.size()) == num_documents * lists.k &&
              lists.scores.size() == lists.ids.size())
      << lists.ids.size() << " ids, " << lists.scores.size() << " scores, n " << num_documents;
  ASSIGN_OR_RETURN(const std::vector<uint32_t> first, FirstOfEqualTexts(num_documents, text));
  std::vector<DuplicateCandidate> candidates;
  if (options.candidates) {
    ASSIGN_OR_RETURN(candidates, options.candidates(first));
  } else {
    candidates = Candidates(lists, first, options.min_cosine);
  }
  Duplicates result;
  NgramCache ngrams(text);
  std::vector<bool> removed(num_documents, false);
  auto next = candidates.cbegin();
  for (uint32_t document = 0; document < num_documents; ++document) {
    const auto begin = next;
    while (next != candidates.cend() && next->later == document) ++next;
    std::optional<DuplicatePair> pair;
    if (first[document] != document) {
      pair = CopyOf(first[document], document, result.pairs);
    } else {
      ASSIGN_OR_RETURN(pair, NearDuplicate({begin, next}, removed, options.min_jaccard, &ngrams,
                                           &result.num_compared));
    }
    removed[document] = pair.has_value();
    if (pair.has_value()) Remove(*pair, &result);
  }
  return result;
}

void ListCharacterNgrams(std::string_view text, std::vector<uint64_t>* grams) {
  constexpr size_t kLength = 5;
  const std::vector<size_t> borders = CodePointBorders(text);
  const size_t characters = borders.size() - 1;
  grams->clear();
  if (characters == 0) return;
  const size_t length = std::min(characters, kLength);
  grams->reserve(characters - length + 1);
  for (size_t i = 0; i + length <= characters; ++i) {
    grams->push_back(XXH3_64bits(text.data() + borders[i], borders[i + length] - borders[i]));
  }
}

std::vector<uint64_t> CharacterNgrams(std::string_view text) {
  std::vector<uint64_t> grams;
  ListCharacterNgrams(text, &grams);
  std::sort(grams.begin(), grams.end());
  grams.erase(std::unique(grams.begin(), grams.end()), grams.end());
  return grams;
}

double Jaccard(std::span<const uint64_t> a, std::span<const uint64_t> b) {
  size_t common = 0;
  for (size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    common += a[i] == b[j];
    const bool advance_a = a[i] <= b[j];
    j += b[j] <= a[i];
    i += advance_a;
  }
  const size_t all = a.size() + b.size() - common;
  return all == 0 ? 1.0 : static_cast<double>(common) / static_cast<double>(all);
}

}  // namespace braid
