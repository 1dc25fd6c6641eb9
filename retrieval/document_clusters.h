// A corpus in a few groups of similar documents, for people to tell apart.
#ifndef BRAID_RETRIEVAL_DOCUMENT_CLUSTERS_H_
#define BRAID_RETRIEVAL_DOCUMENT_CLUSTERS_H_

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "retrieval/document_vectors.h"
#include "retrieval/parallel_for.h"

namespace braid {

// The cluster of each document, [n], each < num_clusters. Spherical k-means on a seeded sample of
// 1024 documents a cluster of those in `fitted`: from centroids drawn by k-means++ (Arthur and
// Vassilvitskii 2007) four times as many groups as clusters are made, the two whose joining costs
// least cosine are joined until as many are left as clusters, and k-means goes on from these. Then
// every document goes to the centroid of largest cosine. Clusters are numbered by descending
// number of documents in `fitted`. Some stay empty where there are not so many different
// documents. The same for any number of threads.
//
// Requires: `fitted` < n, ascending; num_clusters >= 1. FAILED_PRECONDITION for fewer documents
// in `fitted` with a vector other than zero than clusters; errors of `check`.
absl::StatusOr<std::vector<uint32_t>> ClusterDocuments(const DocumentVectors& vectors,
                                                       std::span<const uint32_t> fitted,
                                                       int64_t num_clusters, uint64_t seed,
                                                       const StopCheck& check);

}  // namespace braid

#endif  // BRAID_RETRIEVAL_DOCUMENT_CLUSTERS_H_
