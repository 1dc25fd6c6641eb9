#include "pipeline/ordering/similarity_order.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "base/check.h"
#include "pipeline/ordering/in_neighbors.h"
#include "pipeline/ordering/random_permutation.h"

namespace braid {
namespace {

// Returns the documents ascending by degree, ties ascending by number (a stable counting sort).
std::vector<uint32_t> ByDegree(std::span<const uint32_t> degrees) {
  uint32_t max_degree = 0;
  for (uint32_t degree : degrees) max_degree = std::max(max_degree, degree);
  std::vector<int64_t> next(int64_t{max_degree} + 2, 0);
  for (uint32_t degree : degrees) ++next[degree + 1];
  std::partial_sum(next.begin(), next.end(), next.begin());
  std::vector<uint32_t> sorted(degrees.size());
  for (size_t i = 0; i < degrees.size(); ++i) sorted[next[degrees[i]]++] = i;
  return sorted;
}

// The set of documents that the walk has visited. Padding counts as visited.
class Visited {
 public:
  explicit Visited(int64_t n) : n_(static_cast<uint32_t>(n)), words_(n / 64 + 1, 0) { Add(n_); }

  void Add(uint32_t document) { words_[document / 64] |= uint64_t{1} << (document % 64); }
  uint64_t operator[](uint32_t document) const {  // 0 or 1
    document = std::min(document, n_);
    return words_[document / 64] >> (document % 64) & 1;
  }

 private:
  uint32_t n_;
  std::vector<uint64_t> words_;
};

// Maps an edge to a number that is greater for a higher score and, among equal scores, for a lower
// document number; never 0. A single number makes the scan in NextUnvisited() free of branches,
// which would be mispredicted.
uint64_t Preference(uint32_t document, float score) {
  const uint32_t bits = std::bit_cast<uint32_t>(score + 0.0f);  // -0 becomes +0
  // Converts the bits of an IEEE number to an unsigned integer that has the same order.
  const uint32_t rank = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
  return (score == score ? uint64_t{rank} << 32 : 0) | ~document;
}

// Returns the unvisited neighbor of highest score, or kPadding. The walk leaves each document
// exactly once, so a single scan of its edges at that moment replaces sorting all edges in advance.
uint32_t NextUnvisited(const NeighborLists& lists, const InNeighbors& in_neighbors,
                       const Visited& visited, uint32_t document) {
  constexpr size_t kPerCacheLine = 16;  // ids or scores in 64 bytes
  uint64_t best = 0;
  const InNeighbors::Edges incoming = in_neighbors.of(document);
  const NeighborRow row = RowOf(lists, document);
  for (size_t j = 0; j < row.ids.size(); ++j) {
    const uint64_t keep = visited[row.ids[j]] - 1;  // all bits set when unvisited, else none
    best = std::max(best, Preference(row.ids[j], row.scores[j]) & keep);
  }
  if (best != 0) {
    // The best so far is often the best of all, and waiting for memory is most of
    // the walk's time. Not a function of its own: GCC drops calls to one that only
    // prefetches.
    const uint32_t likely = ~static_cast<uint32_t>(best);
    const NeighborRow next = RowOf(lists, likely);
    for (size_t j = 0; j < next.ids.size(); j += kPerCacheLine) {
      __builtin_prefetch(next.ids.data() + j);
      __builtin_prefetch(next.scores.data() + j);
    }
    in_neighbors.Prefetch(likely);
  }
  incoming.ForEach([&](const InNeighbors::Edge& edge) {
    const uint64_t keep = visited[edge.document] - 1;
    best = std::max(best, Preference(edge.document, edge.score) & keep);
  });
  return best == 0 ? NeighborLists::kPadding : ~static_cast<uint32_t>(best);
}

DocumentOrder Walk(const NeighborLists& lists, const InNeighbors& in_neighbors,
                   std::span<const uint32_t> starts) {
  DocumentOrder result;
  result.order.reserve(starts.size());
  Visited visited(static_cast<int64_t>(starts.size()));
  for (uint32_t start : starts) {
    if (visited[start]) continue;
    result.path_starts.push_back(static_cast<uint32_t>(result.order.size()));
    for (uint32_t at = start; at != NeighborLists::kPadding;
         at = NextUnvisited(lists, in_neighbors, visited, at)) {
      visited.Add(at);
      result.order.push_back(at);
    }
  }
  return result;
}

void CheckLists(const NeighborLists& lists, int64_t n) {
  BRAID_CHECK(n >= 0 && n < int64_t{NeighborLists::kPadding}) << n;
  BRAID_CHECK(lists.k >= 0) << lists.k;
  const auto expected = static_cast<size_t>(n) * static_cast<size_t>(lists.k);
  BRAID_CHECK(lists.ids.size() == expected) << lists.ids.size() << " ids for " << expected;
  BRAID_CHECK(lists.scores.size() == expected) << lists.scores.size() << " for " << expected;
  // Padding + 1 wraps to 0, so one maximum finds any other id out of range.
  uint32_t max_plus_one = 0;
  for (uint32_t id : lists.ids) max_plus_one = std::max(max_plus_one, id + 1);
  BRAID_CHECK(max_plus_one <= n) << "neighbor " << max_plus_one - 1 << " of " << n;
}

}  // namespace

DocumentOrder SimilarityOrder(const NeighborLists& lists, int64_t num_documents, int num_threads) {
  CheckLists(lists, num_documents);
  const InNeighbors in_neighbors(lists, num_documents, num_threads);
  return Walk(lists, in_neighbors, ByDegree(in_neighbors.degrees()));
}

DocumentOrder RandomOrder(int64_t num_documents, uint64_t seed) {
  return {RandomPermutation(num_documents, seed), {}};
}

DocumentOrder SourceOrder(int64_t num_documents) {
  DocumentOrder result;
  result.order.resize(num_documents);
  std::iota(result.order.begin(), result.order.end(), 0u);
  return result;
}

}  // namespace braid
