// Who lists each document: the transposed neighbour lists. Together with the lists
// themselves this is the symmetrised graph.
#ifndef BRAID_PIPELINE_ORDERING_LISTERS_H_
#define BRAID_PIPELINE_ORDERING_LISTERS_H_

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>
#include <vector>

#include "pipeline/ordering/neighbor_lists.h"

namespace braid {

// Laid out for a walk that visits documents in no foreseeable order and so mostly waits
// for memory: the listers of a document stand at a place computed from its number, which
// can be prefetched as soon as the number is known; those for which there is no room
// there follow elsewhere.
class Listers {
 public:
  struct Edge {
    uint32_t document;
    float score;
  };

  // O(n k), by counting sort: edges are first put into buckets of documents that are
  // near each other, then every bucket is sorted within a core's cache. Memory while
  // building: 12 bytes an edge. The same for any number of threads.
  Listers(const NeighborLists& lists, int64_t num_documents, int num_threads);

  // The listers of one document, ascending.
  struct Of {
    std::span<const Edge> first, rest;

    template <class Visit>
    void ForEach(const Visit& visit) const {
      for (const Edge& edge : first) visit(edge);
      for (const Edge& edge : rest) visit(edge);
    }
  };
  Of of(int64_t document) const {
    const uint32_t count = counts_[document];
    const Edge* slots = slots_.get() + document * kSlots;
    if (count <= kSlots) return {{slots, count}, {}};
    return {{slots, kSlots}, OverflowOf(document, count - kSlots)};
  }

  // Asks for what of(document) will read.
  void Prefetch(int64_t document) const {
    __builtin_prefetch(counts_.data() + document);
    const char* slots = reinterpret_cast<const char*>(slots_.get() + document * kSlots);
    for (size_t byte = 0; byte < kSlots * sizeof(Edge); byte += 64) {
      __builtin_prefetch(slots + byte);
    }
  }

  // For each document, the distinct others that list it or are listed by it.
  std::span<const uint32_t> degrees() const { return degrees_; }

 private:
  static constexpr uint32_t kSlots = 24;  // 192 bytes: whole cache lines

  struct Bucketed {
    uint32_t listed;
    Edge edge;
  };
  // Listers beyond kSlots of the documents of one bucket, by document.
  struct Overflow {
    std::vector<uint32_t> documents;  // ascending, without repeats
    std::vector<uint32_t> starts;
    std::vector<Edge> edges;
  };

  std::span<const Edge> OverflowOf(int64_t document, uint32_t count) const;
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

#endif  // BRAID_PIPELINE_ORDERING_LISTERS_H_
