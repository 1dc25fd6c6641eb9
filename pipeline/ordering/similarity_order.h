// Orders in which documents are laid out before they are packed.
//
// The similarity order is the greedy maximum travelling-salesman path of
// in-context pretraining (arXiv 2310.10638, Algorithm 1) over the symmetrised
// nearest-neighbour graph; docs/ordering.md tells what it guarantees.
#ifndef BRAID_PIPELINE_ORDERING_SIMILARITY_ORDER_H_
#define BRAID_PIPELINE_ORDERING_SIMILARITY_ORDER_H_

#include <cstdint>
#include <vector>

#include "pipeline/ordering/neighbor_lists.h"

namespace braid {

// Every document exactly once, with the places where a walk had to jump.
struct DocumentOrder {
  std::vector<uint32_t> order;  // [n] document at each position

  // Positions in `order` at which a path begins, ascending; the first is 0.
  // Empty for orders that are no walk (random, source).
  std::vector<uint32_t> path_starts;
};

// The greedy path. Two documents are joined when either lists the other, with
// the higher of the two scores. The walk starts at the document of lowest
// degree, goes on to the unvisited neighbour of highest score and, when there
// is none, starts again at the unvisited document of lowest degree. Degrees are
// those of the whole graph; all ties go to the lower id.
//
// Requires: lists.ids and lists.scores have num_documents * k elements;
// num_documents < 2^32 - 1.
// Guarantees: a permutation; the same for any num_threads and any order within
// a row. O(n k) time; scratch of 12 bytes an edge and 210 bytes a
// document (k up to 24); the lists may be memory-mapped.
DocumentOrder SimilarityOrder(const NeighborLists& lists, int64_t num_documents,
                              int num_threads = 1);

// A permutation drawn uniformly; a pure function of its arguments.
DocumentOrder RandomOrder(int64_t num_documents, uint64_t seed);

// 0, 1, 2, ...
DocumentOrder SourceOrder(int64_t num_documents);

}  // namespace braid

#endif  // BRAID_PIPELINE_ORDERING_SIMILARITY_ORDER_H_
