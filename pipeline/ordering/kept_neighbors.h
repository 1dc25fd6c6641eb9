// The neighbor graph of the documents that remain after others were removed (duplicates, held-out
// documents), renumbered without gaps.
#ifndef BRAID_PIPELINE_ORDERING_KEPT_NEIGHBORS_H_
#define BRAID_PIPELINE_ORDERING_KEPT_NEIGHBORS_H_

#include <cstdint>
#include <span>
#include <vector>

#include "pipeline/ordering/similarity_order.h"

namespace braid {

// Neighbor lists of m documents, numbered 0 .. m-1.
struct KeptNeighbors {
  int32_t k = 0;
  std::vector<uint32_t> ids;  // [m, k], NeighborLists::kPadding at the row's end
  std::vector<float> scores;  // [m, k], 0 at padding

  NeighborLists view() const { return {k, ids, scores}; }
};

// Returns the rows and neighbors of the documents in `kept`; document kept[i] becomes i. O(n + m
// k). Requires: `kept` strictly ascending. Guarantees: the order within rows is preserved.
KeptNeighbors RestrictNeighbors(const NeighborLists& lists, int64_t num_documents,
                                std::span<const uint32_t> kept);

// Converts an order of positions in `kept` to the original document numbers.
DocumentOrder OriginalNumbers(DocumentOrder order, std::span<const uint32_t> kept);

}  // namespace braid

#endif  // BRAID_PIPELINE_ORDERING_KEPT_NEIGHBORS_H_
