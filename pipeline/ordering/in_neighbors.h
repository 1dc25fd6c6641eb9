// The in-neighbors of each document, those whose neighbor list names it: the transposed neighbor
// lists. Together with the lists themselves they form the symmetrized graph.
#ifndef BRAID_PIPELINE_ORDERING_IN_NEIGHBORS_H_
#define BRAID_PIPELINE_ORDERING_IN_NEIGHBORS_H_

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>
#include <vector>

#include "pipeline/ordering/neighbor_lists.h"

namespace braid {

// The transposed graph, laid out for a walk that visits documents in an unpredictable order and is
// therefore bound by memory latency. The first kSlots in-neighbors of a document are stored at an
// address computed from its number, which can be prefetched as soon as the number is known; the
// others are stored in an overflow list. Immutable and thread-safe.
class InNeighbors {
 public:
  struct Edge {
    uint32_t document;
    float score;
  };

  // Transposes the lists by a counting sort in two passes: the first distributes the edges to
  // buckets of documents with adjacent numbers, the second sorts each bucket within the cache of a
  // core. O(n k) time; 12 bytes per edge while building, 200 bytes per document afterwards.
  // Guarantees: the same content for any num_threads.
  InNeighbors(const NeighborLists& lists, int64_t num_documents, int num_threads);

  // The edges from the in-neighbors of one document, ascending by in-neighbor.
  struct Edges {
    std::span<const Edge> first, rest;

    template <class Visit>
    void ForEach(const Visit& visit) const {
      for (const Edge& edge : first) visit(edge);
      for (const Edge& edge : rest) visit(edge);
    }
  };
  Edges of(int64_t document) const {
    const uint32_t count = counts_[document];
    const Edge* slots = slots_.get() + document * kSlots;
    if (count <= kSlots) return {{slots, count}, {}};
    return {{slots, kSlots}, OverflowOf(document, count - kSlots)};
  }

  // Prefetches the memory that of(document) reads.
  void Prefetch(int64_t document) const {
    __builtin_prefetch(counts_.data() + document);
    const char* slots = reinterpret_cast<const char*>(slots_.get() + document * kSlots);
    for (size_t byte = 0; byte < kSlots * sizeof(Edge); byte += 64) {
      __builtin_prefetch(slots + byte);
    }
  }

  // For each document, the number of distinct other documents adjacent to it in the symmetrized
  // graph.
  std::span<const uint32_t> degrees() const { return degrees_; }

 private:
  static constexpr uint32_t kSlots = 24;  // 192 bytes: whole cache lines

  struct Bucketed {
    uint32_t target;
    Edge edge;  // from the in-neighbor
  };
  // The in-neighbors beyond kSlots of the documents of one bucket.
  struct Overflow {
    std::vector<uint32_t> documents;  // those that have some, ascending
    std::vector<uint32_t> starts;     // start of each of them in `edges`
    std::vector<Edge> edges;
  };

  std::span<const Edge> OverflowOf(int64_t document, uint32_t count) const;
  // The edges by bucket, and where the edges of each bucket begin.
  struct Buckets {
    std::unique_ptr<Bucketed[]> edges;
    std::vector<int64_t> starts;  // [buckets + 1]
  };

  static Buckets Distribute(const NeighborLists& lists, int64_t n, int64_t num_buckets,
                            int64_t num_parts);
  void FillBucket(const NeighborLists& lists, int64_t bucket, std::span<const Bucketed> edges);

  struct Free {
    void operator()(Edge* edges) const { std::free(edges); }
  };

  std::vector<uint32_t> counts_;
  std::vector<uint32_t> degrees_;
  std::unique_ptr<Edge[], Free> slots_;  // [n, kSlots]
  std::vector<Overflow> overflow_;       // by bucket
};

}  // namespace braid

#endif  // BRAID_PIPELINE_ORDERING_IN_NEIGHBORS_H_
