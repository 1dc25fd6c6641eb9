#include "pipeline/ordering/listers.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <new>
#include <numeric>
#include <thread>
#include <utility>

namespace braid {
namespace {

// Documents of a bucket: their slots fit in a core's second cache.
constexpr int kBucketBits = 12;
constexpr int64_t kBucketDocuments = int64_t{1} << kBucketBits;

// Runs body(part) for parts 0 .. parts - 1, each in a thread of its own.
template <class Body>
void ForEachPart(int64_t parts, const Body& body) {
  std::vector<std::jthread> threads;
  for (int64_t part = 1; part < parts; ++part) {
    threads.emplace_back([&, part] { body(part); });
  }
  body(0);
}

// Calls visit(lister, listed, score) for each edge out of [begin, end).
template <class Visit>
void ForEachEdge(const NeighborLists& lists, int64_t begin, int64_t end, const Visit& visit) {
  for (int64_t lister = begin; lister < end; ++lister) {
    const NeighborRow row = RowOf(lists, lister);
    for (size_t j = 0; j < row.ids.size(); ++j) {
      const uint32_t listed = row.ids[j];
      if (listed == NeighborLists::kPadding || listed == lister) continue;
      visit(static_cast<uint32_t>(lister), listed, row.scores[j]);
    }
  }
}

bool Contains(std::span<const uint32_t> ids, uint32_t id) {
  uint32_t found = 0;
  for (uint32_t other : ids) found |= other == id;  // no early exit: vectorises
  return found != 0;
}

// Distinct documents that list `document` or are listed by it.
uint32_t Degree(const NeighborRow& row, const Listers::Of& listers, uint32_t document) {
  uint32_t degree = 0;
  for (size_t j = 0; j < row.ids.size(); ++j) {
    const uint32_t id = row.ids[j];
    degree += id != NeighborLists::kPadding && id != document && !Contains(row.ids.first(j), id);
  }
  uint32_t previous = NeighborLists::kPadding;
  listers.ForEach([&](const Listers::Edge& edge) {
    degree += edge.document != previous && !Contains(row.ids, edge.document);
    previous = edge.document;
  });
  return degree;
}

// Aligned to huge pages and advised to be such: most of the walk's accesses would miss
// the translation of small ones too.
void* AllocateHuge(size_t bytes) {
  constexpr size_t kHugePage = size_t{2} << 20;
  const size_t rounded = (std::max<size_t>(bytes, 1) + kHugePage - 1) / kHugePage * kHugePage;
  void* memory = std::aligned_alloc(kHugePage, rounded);
  if (memory == nullptr) throw std::bad_alloc();
  madvise(memory, rounded, MADV_HUGEPAGE);
  return memory;
}

}  // namespace

Listers::Listers(const NeighborLists& lists, int64_t n, int num_threads)
    : counts_(n, 0),
      degrees_(n, 0),
      slots_(static_cast<Edge*>(AllocateHuge(n * kSlots * sizeof(Edge)))),
      overflow_((n + kBucketDocuments - 1) / kBucketDocuments) {
  const auto num_buckets = static_cast<int64_t>(overflow_.size());
  const int64_t parts = std::clamp<int64_t>(num_threads, 1, std::max<int64_t>(n, 1));
  const auto begin_of = [&](int64_t part) { return n * part / parts; };
  // next[part, bucket]: where the part puts its next edge; parts in order of listers,
  // so that a bucket's edges are ascending by lister for any number of parts.
  std::vector<std::vector<int64_t>> next(parts, std::vector<int64_t>(num_buckets, 0));
  ForEachPart(parts, [&](int64_t part) {
    std::vector<int64_t> counts(num_buckets, 0);
    ForEachEdge(lists, begin_of(part), begin_of(part + 1),
                [&](uint32_t, uint32_t listed, float) { ++counts[listed >> kBucketBits]; });
    next[part] = std::move(counts);
  });
  std::vector<int64_t> starts(num_buckets + 1, 0);
  int64_t num_edges = 0;
  for (int64_t bucket = 0; bucket < num_buckets; ++bucket) {
    starts[bucket] = num_edges;
    for (int64_t part = 0; part < parts; ++part) {
      num_edges += std::exchange(next[part][bucket], num_edges);
    }
  }
  starts[num_buckets] = num_edges;
  const auto bucketed = std::make_unique_for_overwrite<Bucketed[]>(num_edges);
  ForEachPart(parts, [&](int64_t part) {
    std::vector<int64_t> at = next[part];
    ForEachEdge(lists, begin_of(part), begin_of(part + 1),
                [&](uint32_t lister, uint32_t listed, float score) {
                  bucketed[at[listed >> kBucketBits]++] = {listed, {lister, score}};
                });
  });
  std::atomic<int64_t> next_bucket{0};
  ForEachPart(parts, [&](int64_t) {
    for (int64_t bucket; (bucket = next_bucket++) < num_buckets;) {
      FillBucket(lists, bucket,
                 {bucketed.get() + starts[bucket], bucketed.get() + starts[bucket + 1]});
    }
  });
}

void Listers::FillBucket(const NeighborLists& lists, int64_t bucket,
                         std::span<const Bucketed> edges) {
  std::vector<Bucketed> beyond;
  for (const Bucketed& bucketed : edges) {
    const uint32_t count = counts_[bucketed.listed]++;
    if (count < kSlots) {
      slots_[int64_t{bucketed.listed} * kSlots + count] = bucketed.edge;
    } else {
      beyond.push_back(bucketed);
    }
  }
  std::ranges::stable_sort(beyond, {}, &Bucketed::listed);
  Overflow& overflow = overflow_[bucket];
  for (const Bucketed& bucketed : beyond) {
    if (overflow.documents.empty() || overflow.documents.back() != bucketed.listed) {
      overflow.documents.push_back(bucketed.listed);
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

std::span<const Listers::Edge> Listers::OverflowOf(int64_t document, uint32_t count) const {
  const Overflow& overflow = overflow_[document >> kBucketBits];
  const auto found = std::ranges::lower_bound(overflow.documents, static_cast<uint32_t>(document));
  const uint32_t start = overflow.starts[found - overflow.documents.begin()];
  return {overflow.edges.data() + start, count};
}

}  // namespace braid
