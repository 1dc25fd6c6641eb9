#include "pipeline/similarity_order.h"

#include <algorithm>
#include <bit>
#include <memory>
#include <numeric>
#include <thread>

#include "formats/check.h"
#include "pipeline/random_permutation.h"

namespace braid {
namespace {

// A read-only row of the input: the neighbours that `document` lists.
struct Row {
  std::span<const uint32_t> ids;
  std::span<const float> scores;
};

Row RowOf(const NeighborLists& lists, int64_t document) {
  const auto k = static_cast<size_t>(lists.k);
  return {lists.ids.subspan(document * k, k), lists.scores.subspan(document * k, k)};
}

struct Edge {
  uint32_t document;
  float score;
};

// The transposed graph in compressed rows: who lists each document, ascending by
// the lister. Together with the input rows this is the symmetrised graph; a pair
// that lists each other is in both.
struct Listers {
  std::vector<int64_t> starts;  // [n + 1]
  std::unique_ptr<Edge[]> edges;

  std::span<const Edge> of(int64_t document) const {
    return {edges.get() + starts[document], edges.get() + starts[document + 1]};
  }
};

// Runs body(begin, end) on equal parts of [0, n).
template <class Body>
void InParallel(int64_t n, int num_threads, const Body& body) {
  const int64_t parts = std::clamp<int64_t>(num_threads, 1, std::max<int64_t>(n, 1));
  std::vector<std::jthread> threads;
  for (int64_t part = 1; part < parts; ++part) {
    threads.emplace_back([&, part] { body(n * part / parts, n * (part + 1) / parts); });
  }
  body(0, n / parts);
}

// Calls visit(lister, listed, score) for each edge into [begin, end), ascending
// by lister.
template <class Visit>
void ForEachEdgeInto(const NeighborLists& lists, int64_t n, int64_t begin, int64_t end,
                     const Visit& visit) {
  const uint32_t first = static_cast<uint32_t>(begin);
  const uint32_t count = static_cast<uint32_t>(end - begin);
  for (int64_t lister = 0; lister < n; ++lister) {
    const Row row = RowOf(lists, lister);
    for (size_t j = 0; j < row.ids.size(); ++j) {
      const uint32_t listed = row.ids[j];
      if (listed - first < count && listed != lister) {
        visit(static_cast<uint32_t>(lister), listed, row.scores[j]);
      }
    }
  }
}

// Each thread reads all lists and writes only its own range of rows: no atomics,
// and the result does not depend on the number of threads.
Listers Transpose(const NeighborLists& lists, int64_t n, int num_threads) {
  Listers listers;
  listers.starts.assign(n + 1, 0);
  InParallel(n, num_threads, [&](int64_t begin, int64_t end) {
    ForEachEdgeInto(lists, n, begin, end,
                    [&](uint32_t, uint32_t listed, float) { ++listers.starts[listed + 1]; });
  });
  std::partial_sum(listers.starts.begin(), listers.starts.end(), listers.starts.begin());
  // Not zeroed: the threads that fill the pages also fault them in.
  listers.edges = std::make_unique_for_overwrite<Edge[]>(listers.starts[n]);
  InParallel(n, num_threads, [&](int64_t begin, int64_t end) {
    std::vector<int64_t> next(listers.starts.begin() + begin, listers.starts.begin() + end);
    ForEachEdgeInto(lists, n, begin, end, [&](uint32_t lister, uint32_t listed, float score) {
      listers.edges[next[listed - begin]++] = {lister, score};
    });
  });
  return listers;
}

bool Contains(std::span<const uint32_t> ids, uint32_t id) {
  uint32_t found = 0;
  for (uint32_t other : ids) found |= other == id;  // no early exit: vectorises
  return found != 0;
}

// Distinct documents that list `document` or are listed by it.
uint32_t Degree(const NeighborLists& lists, const Listers& listers, int64_t document) {
  const Row row = RowOf(lists, document);
  uint32_t degree = 0;
  for (size_t j = 0; j < row.ids.size(); ++j) {
    const uint32_t id = row.ids[j];
    degree += id != NeighborLists::kPadding && id != document && !Contains(row.ids.first(j), id);
  }
  uint32_t previous = NeighborLists::kPadding;
  for (const Edge& edge : listers.of(document)) {
    degree += edge.document != previous && !Contains(row.ids, edge.document);
    previous = edge.document;
  }
  return degree;
}

// Counting sort by degree; stable, so ties stay in id order.
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

// Which documents the walk has been to. Padding counts as visited.
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

// Greater for a higher score, then for a lower id; never 0. One number, so that
// the scan below has no branch to mispredict.
uint64_t Preference(uint32_t document, float score) {
  const uint32_t bits = std::bit_cast<uint32_t>(score + 0.0f);  // -0 becomes 0
  // IEEE numbers as unsigned ones of the same order.
  const uint32_t rank = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
  return (score == score ? uint64_t{rank} << 32 : 0) | ~document;
}

// The walk leaves each document once, so one scan of its edges at that moment
// does what sorting them beforehand would.
uint32_t NextUnvisited(const NeighborLists& lists, const Listers& listers, const Visited& visited,
                       uint32_t document) {
  constexpr size_t kPerCacheLine = 16;  // ids or scores in 64 bytes
  uint64_t best = 0;
  const Row row = RowOf(lists, document);
  for (size_t j = 0; j < row.ids.size(); ++j) {
    const uint64_t keep = visited[row.ids[j]] - 1;  // all bits, or none
    best = std::max(best, Preference(row.ids[j], row.scores[j]) & keep);
  }
  if (best != 0) {
    // The best so far is often the best of all, and waiting for memory is most of
    // the walk's time. Not a function of its own: GCC drops calls to one that only
    // prefetches.
    const uint32_t likely = ~static_cast<uint32_t>(best);
    const Row next = RowOf(lists, likely);
    for (size_t j = 0; j < next.ids.size(); j += kPerCacheLine) {
      __builtin_prefetch(next.ids.data() + j);
      __builtin_prefetch(next.scores.data() + j);
    }
    __builtin_prefetch(listers.starts.data() + likely);
  }
  for (const Edge& edge : listers.of(document)) {
    const uint64_t keep = visited[edge.document] - 1;
    best = std::max(best, Preference(edge.document, edge.score) & keep);
  }
  return best == 0 ? NeighborLists::kPadding : ~static_cast<uint32_t>(best);
}

DocumentOrder Walk(const NeighborLists& lists, const Listers& listers,
                   std::span<const uint32_t> starts) {
  DocumentOrder result;
  result.order.reserve(starts.size());
  Visited visited(static_cast<int64_t>(starts.size()));
  for (uint32_t start : starts) {
    if (visited[start]) continue;
    result.path_starts.push_back(static_cast<uint32_t>(result.order.size()));
    for (uint32_t at = start; at != NeighborLists::kPadding;
         at = NextUnvisited(lists, listers, visited, at)) {
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
  BRAID_CHECK(max_plus_one <= n) << "neighbour " << max_plus_one - 1 << " of " << n;
}

}  // namespace

DocumentOrder SimilarityOrder(const NeighborLists& lists, int64_t num_documents, int num_threads) {
  CheckLists(lists, num_documents);
  const Listers listers = Transpose(lists, num_documents, num_threads);
  std::vector<uint32_t> degrees(num_documents);
  InParallel(num_documents, num_threads, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) degrees[i] = Degree(lists, listers, i);
  });
  return Walk(lists, listers, ByDegree(degrees));
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
