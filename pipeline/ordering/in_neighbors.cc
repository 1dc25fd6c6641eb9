#include "pipeline/ordering/in_neighbors.h"

#include <algorithm>
#include <atomic>
#include <numeric>
#include <thread>
#include <utility>

#include "base/huge_pages.h"

namespace braid {
namespace {

// A bucket covers 4096 documents, whose slots fit into the second-level cache of a core.
constexpr int kBucketBits = 12;
constexpr int64_t kBucketDocuments = int64_t{1} << kBucketBits;

// Runs body(part) for the parts 0 .. parts - 1, each on its own thread.
template <class Body>
void ForEachPart(int64_t parts, const Body& body) {
  std::vector<std::jthread> threads;
  for (int64_t part = 1; part < parts; ++part) {
    threads.emplace_back([&, part] { body(part); });
  }
  body(0);
}

// Calls visit(source, target, score) for each edge whose source is in [begin, end).
template <class Visit>
void ForEachEdge(const NeighborLists& lists, int64_t begin, int64_t end, const Visit& visit) {
  for (int64_t source = begin; source < end; ++source) {
    const NeighborRow row = RowOf(lists, source);
    for (size_t j = 0; j < row.ids.size(); ++j) {
      const uint32_t target = row.ids[j];
      if (target == NeighborLists::kPadding || target == source) continue;
      visit(static_cast<uint32_t>(source), target, row.scores[j]);
    }
  }
}

bool Contains(std::span<const uint32_t> ids, uint32_t id) {
  uint32_t found = 0;
  for (uint32_t other : ids) found |= other == id;  // no early exit, so that the loop is vectorized
  return found != 0;
}

// Returns the number of distinct other documents adjacent to `document` in the symmetrized graph.
uint32_t Degree(const NeighborRow& row, const InNeighbors::Edges& in_neighbors, uint32_t document) {
  uint32_t degree = 0;
  for (size_t j = 0; j < row.ids.size(); ++j) {
    const uint32_t id = row.ids[j];
    degree += id != NeighborLists::kPadding && id != document && !Contains(row.ids.first(j), id);
  }
  uint32_t previous = NeighborLists::kPadding;
  in_neighbors.ForEach([&](const InNeighbors::Edge& edge) {
    degree += edge.document != previous && !Contains(row.ids, edge.document);
    previous = edge.document;
  });
  return degree;
}

}  // namespace

// The first pass of the counting sort. Every part counts its edges by bucket; a prefix sum over
// (bucket, part) gives every part a range of its own in every bucket, so that the parts write
// without synchronization. Parts are in ascending order of sources, so the edges of a bucket are
// ascending by source for any number of parts.
InNeighbors::Buckets InNeighbors::Distribute(const NeighborLists& lists, int64_t n,
                                             int64_t num_buckets, int64_t num_parts) {
  const auto begin_of = [&](int64_t part) { return n * part / num_parts; };
  std::vector<std::vector<int64_t>> next(num_parts);  // [part, bucket] position of the next edge
  ForEachPart(num_parts, [&](int64_t part) {
    std::vector<int64_t> counts(num_buckets, 0);
    ForEachEdge(lists, begin_of(part), begin_of(part + 1),
                [&](uint32_t, uint32_t target, float) { ++counts[target >> kBucketBits]; });
    next[part] = std::move(counts);
  });
  Buckets result{nullptr, std::vector<int64_t>(num_buckets + 1, 0)};
  int64_t num_edges = 0;
  for (int64_t bucket = 0; bucket < num_buckets; ++bucket) {
    result.starts[bucket] = num_edges;
    for (int64_t part = 0; part < num_parts; ++part) {
      num_edges += std::exchange(next[part][bucket], num_edges);
    }
  }
  result.starts[num_buckets] = num_edges;
  result.edges = std::make_unique_for_overwrite<Bucketed[]>(num_edges);
  ForEachPart(num_parts, [&](int64_t part) {
    std::vector<int64_t> at = next[part];
    ForEachEdge(lists, begin_of(part), begin_of(part + 1),
                [&](uint32_t source, uint32_t target, float score) {
                  result.edges[at[target >> kBucketBits]++] = {target, {source, score}};
                });
  });
  return result;
}

InNeighbors::InNeighbors(const NeighborLists& lists, int64_t n, int num_threads)
    : counts_(n, 0),
      degrees_(n, 0),
      slots_(static_cast<Edge*>(AllocateHuge(n * kSlots * sizeof(Edge)))),
      overflow_((n + kBucketDocuments - 1) / kBucketDocuments) {
  const auto num_buckets = static_cast<int64_t>(overflow_.size());
  const int64_t num_parts = std::clamp<int64_t>(num_threads, 1, std::max<int64_t>(n, 1));
  const Buckets buckets = Distribute(lists, n, num_buckets, num_parts);
  std::atomic<int64_t> next_bucket{0};
  ForEachPart(num_parts, [&](int64_t) {
    for (int64_t bucket; (bucket = next_bucket++) < num_buckets;) {
      const Bucketed* const edges = buckets.edges.get();
      FillBucket(lists, bucket,
                 {edges + buckets.starts[bucket], edges + buckets.starts[bucket + 1]});
    }
  });
}

// The second pass: distributes the edges of a bucket to its documents, whose slots fit into the
// cache of a core, and counts the degrees.
void InNeighbors::FillBucket(const NeighborLists& lists, int64_t bucket,
                             std::span<const Bucketed> edges) {
  std::vector<Bucketed> beyond;
  for (const Bucketed& bucketed : edges) {
    const uint32_t count = counts_[bucketed.target]++;
    if (count < kSlots) {
      slots_[int64_t{bucketed.target} * kSlots + count] = bucketed.edge;
    } else {
      beyond.push_back(bucketed);
    }
  }
  std::ranges::stable_sort(beyond, {}, &Bucketed::target);
  Overflow& overflow = overflow_[bucket];
  for (const Bucketed& bucketed : beyond) {
    if (overflow.documents.empty() || overflow.documents.back() != bucketed.target) {
      overflow.documents.push_back(bucketed.target);
      overflow.starts.push_back(static_cast<uint32_t>(overflow.edges.size()));
    }
    overflow.edges.push_back(bucketed.edge);
  }
  const int64_t begin = bucket * kBucketDocuments;
  const int64_t end = std::min(begin + kBucketDocuments, static_cast<int64_t>(counts_.size()));
  for (int64_t i = begin; i < end; ++i) {
    degrees_[i] = Degree(RowOf(lists, i), of(i), static_cast<uint32_t>(i));
  }
}

std::span<const InNeighbors::Edge> InNeighbors::OverflowOf(int64_t document, uint32_t count) const {
  const Overflow& overflow = overflow_[document >> kBucketBits];
  const auto found = std::ranges::lower_bound(overflow.documents, static_cast<uint32_t>(document));
  const uint32_t start = overflow.starts[found - overflow.documents.begin()];
  return {overflow.edges.data() + start, count};
}

}  // namespace braid
