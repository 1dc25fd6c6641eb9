// Partition of a corpus into parts of similar documents, so that a graph larger than memory can be
// ordered part by part (partitioned_order.h).
#ifndef BRAID_PIPELINE_ORDERING_DOCUMENT_PARTITION_H_
#define BRAID_PIPELINE_ORDERING_DOCUMENT_PARTITION_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "retrieval/document_vectors.h"
#include "retrieval/parallel_for.h"

namespace braid {

// Returns the number of parts for n documents when CorpusSpec.order_partitions is `requested`: 0
// means one part per 50 million documents. The result is at least 1 and at most max(n, 1).
int64_t NumOrderPartitions(int64_t requested, int64_t n);

// Returns the part of each document: [n], each < num_partitions.
//
// Algorithm: k-means assigns the documents to eight coarse lists per part (coarse_centroids.h); the
// lists are chained, each followed by the unused one with the nearest centroid; the chain is cut
// into parts of about equal numbers of documents. Consecutive parts are therefore similar too.
// Guarantees: the same result for any number of threads. Errors: those of `check`.
absl::StatusOr<std::vector<uint32_t>> PartitionDocuments(const DocumentVectors& vectors,
                                                         int64_t num_partitions, uint64_t seed,
                                                         const StopCheck& check);

}  // namespace braid

#endif  // BRAID_PIPELINE_ORDERING_DOCUMENT_PARTITION_H_
