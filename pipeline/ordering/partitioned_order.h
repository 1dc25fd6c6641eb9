// The similarity order of a graph that is taken part by part.
#ifndef BRAID_PIPELINE_ORDERING_PARTITIONED_ORDER_H_
#define BRAID_PIPELINE_ORDERING_PARTITIONED_ORDER_H_

#include <cstdint>
#include <span>

#include "pipeline/ordering/similarity_order.h"

namespace braid {

inline constexpr uint32_t kNoPartition = 0xFFFFFFFF;

// Each part is walked alone, over the edges inside it (SimilarityOrder), which gives
// paths. These are joined end to start: behind the last document of a path comes the
// unused path whose first document it is joined to in the whole graph by the highest
// score, ties to the lower document; where there is none, the next unused path, by part
// and then by place in the part. So parts should be numbered with similar ones next to
// each other.
//
// partition_of: [num_documents], each < num_partitions, or kNoPartition for documents that
// are left out (removed, held out), with all their edges. With one part the order is that
// of SimilarityOrder. In the result a path ends where two documents follow each other
// that no edge joins.
// Guarantees: every document of a part once; the same for any num_threads. Memory beyond
// the lists, which may be memory-mapped: the rows and scratch (similarity_order.h) of one
// part, 20 bytes a document and about 100 a path.
DocumentOrder PartitionedOrder(const NeighborLists& lists, int64_t num_documents,
                               std::span<const uint32_t> partition_of, int64_t num_partitions,
                               int num_threads = 1);

}  // namespace braid

#endif  // BRAID_PIPELINE_ORDERING_PARTITIONED_ORDER_H_
