// The similarity order of a graph that is too large to be walked as a whole.
#ifndef BRAID_PIPELINE_ORDERING_PARTITIONED_ORDER_H_
#define BRAID_PIPELINE_ORDERING_PARTITIONED_ORDER_H_

#include <cstdint>
#include <span>

#include "pipeline/ordering/similarity_order.h"

namespace braid {

inline constexpr uint32_t kNoPartition = 0xFFFFFFFF;

// Orders the documents of all parts, part by part.
//
// Algorithm: walk each part alone, over the edges inside it (SimilarityOrder, the greedy path of
// in-context pretraining, arXiv 2310.10638, Algorithm 1), which gives paths; then join the paths
// end to start. After a path comes the unused path whose first document has the highest score in
// the whole graph among those adjacent to the last document of the path, ties to the lower
// document; if there is none, the next unused path in the order of parts and of positions in a
// part. Consecutive parts should therefore be similar (document_partition.h).
//
// Requires: partition_of of num_documents elements, each < num_partitions, or kNoPartition for a
// document that is left out (removed, held out) with all its edges.
// Guarantees: every document of a part exactly once; the same order for any num_threads; with one
// part, the order of SimilarityOrder. A path of the result ends where no edge joins two consecutive
// documents.
// Complexity: O(n k + p k log(p k)) time for p paths. Memory beyond the lists, which may be
// memory-mapped: the rows and the working memory (similarity_order.h) of one part, 20 bytes per
// document and about 100 per path.
DocumentOrder PartitionedOrder(const NeighborLists& lists, int64_t num_documents,
                               std::span<const uint32_t> partition_of, int64_t num_partitions,
                               int num_threads = 1);

}  // namespace braid

#endif  // BRAID_PIPELINE_ORDERING_PARTITIONED_ORDER_H_
