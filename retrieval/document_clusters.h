// Clustering of a corpus into a few groups of similar documents.
#ifndef BRAID_RETRIEVAL_DOCUMENT_CLUSTERS_H_
#define BRAID_RETRIEVAL_DOCUMENT_CLUSTERS_H_

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "retrieval/document_vectors.h"
#include "retrieval/parallel_for.h"

namespace braid {

// Returns the cluster of each document, [n], each < num_clusters.
//
// Runs spherical k-means on a seeded sample of 1024 documents per cluster, drawn from `fitted`:
// centroids drawn by k-means++ (Arthur and Vassilvitskii 2007) give four times as many groups as
// clusters; the two groups whose union loses the least cosine are joined until num_clusters are
// left; k-means continues from these. Then every document is assigned to the centroid with the
// largest cosine. Clusters are numbered by descending number of documents in `fitted`; some are
// empty if there are too few different documents. The result does not depend on the number of
// threads.
//
// Requires: `fitted` < n and ascending; num_clusters >= 1. FAILED_PRECONDITION if fewer documents
// of `fitted` than clusters have a nonzero vector; errors of `check`.
absl::StatusOr<std::vector<uint32_t>> ClusterDocuments(const DocumentVectors& vectors,
                                                       std::span<const uint32_t> fitted,
                                                       int64_t num_clusters, uint64_t seed,
                                                       const StopCheck& check);

}  // namespace braid

#endif  // BRAID_RETRIEVAL_DOCUMENT_CLUSTERS_H_
