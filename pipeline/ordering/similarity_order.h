// Orders of documents for packing: by similarity, random, and as in the source.
//
// The similarity order is the greedy approximation of a maximum traveling-salesman path that
// in-context pretraining uses (arXiv 2310.10638, Algorithm 1), over the symmetrized graph of
// nearest neighbors. docs/ordering.md describes its guarantees and how it differs from the paper.
#ifndef BRAID_PIPELINE_ORDERING_SIMILARITY_ORDER_H_
#define BRAID_PIPELINE_ORDERING_SIMILARITY_ORDER_H_

#include <cstdint>
#include <vector>

#include "pipeline/ordering/neighbor_lists.h"

namespace braid {

// A permutation of documents, with the positions at which the walk restarted.
struct DocumentOrder {
  std::vector<uint32_t> order;  // [n] document at each position

  // Positions in `order` at which a path begins, ascending; the first is 0. Empty for orders that
  // are not walks (random, source).
  std::vector<uint32_t> path_starts;
};

// Returns the greedy path through all documents.
//
// Algorithm: an edge joins two documents when either names the other, with the higher of the two
// scores. The walk starts at the document of lowest degree and moves to the unvisited neighbor of
// highest score; when there is none, it restarts at the unvisited document of lowest degree.
// Degrees are those of the whole graph; all ties go to the lower document number.
//
// Requires: lists.ids and lists.scores have num_documents * k elements; num_documents < 2^32 - 1.
// Guarantees: every document exactly once; the same order for any num_threads and for any order of
// neighbors within a row.
// Complexity: O(n k) time. Working memory: 12 bytes per edge and 210 bytes per document (k up to
// 24) beyond the lists, which may be memory-mapped.
DocumentOrder SimilarityOrder(const NeighborLists& lists, int64_t num_documents,
                              int num_threads = 1);

// Returns a uniform random permutation, a pure function of its arguments.
DocumentOrder RandomOrder(int64_t num_documents, uint64_t seed);

// Returns the order 0, 1, 2, ...
DocumentOrder SourceOrder(int64_t num_documents);

}  // namespace braid

#endif  // BRAID_PIPELINE_ORDERING_SIMILARITY_ORDER_H_
