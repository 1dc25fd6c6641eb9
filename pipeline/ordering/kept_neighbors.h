// The neighbour graph of the documents that remain after some were removed
// (duplicates, held-out documents), renumbered without gaps.
#ifndef BRAID_PIPELINE_ORDERING_KEPT_NEIGHBORS_H_
#define BRAID_PIPELINE_ORDERING_KEPT_NEIGHBORS_H_

#include <cstdint>
#include <span>
#include <vector>

#include "pipeline/ordering/similarity_order.h"

namespace braid {

// Neighbour lists of m documents, numbered 0 .. m-1.
struct KeptNeighbors {
  int32_t k = 0;
  std::vector<uint32_t> ids;  // [m, k], NeighborLists::kPadding at the row's end
  std::vector<float> scores;  // [m, k], 0 at padding

  NeighborLists view() const { return {k, ids, scores}; }
};

// Rows and neighbours of the documents in `kept`; document kept[i] becomes i.
// Requires: `kept` strictly ascending. Guarantees: order within rows stays.
KeptNeighbors RestrictNeighbors(const NeighborLists& lists, int64_t num_documents,
                                std::span<const uint32_t> kept);

// Turns positions in `kept` back into the documents' own numbers.
DocumentOrder OriginalNumbers(DocumentOrder order, std::span<const uint32_t> kept);

}  // namespace braid

#endif  // BRAID_PIPELINE_ORDERING_KEPT_NEIGHBORS_H_
