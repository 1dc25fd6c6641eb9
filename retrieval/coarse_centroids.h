// Centroids that divide a corpus into lists of similar documents.
#ifndef BRAID_RETRIEVAL_COARSE_CENTROIDS_H_
#define BRAID_RETRIEVAL_COARSE_CENTROIDS_H_

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "retrieval/document_vectors.h"
#include "retrieval/parallel_for.h"

namespace braid {

// Trains centroids [num_lists, d] of norm 1 by the spherical k-means of FAISS: eight iterations on
// a seeded sample of 32 documents per list, 2 * 32 * 8 * num_lists^2 * d floating-point operations.
// The result does not depend on the number of threads. Errors: INVALID_ARGUMENT for fewer documents
// than lists, those of `check`.
absl::StatusOr<std::vector<float>> TrainCentroids(const DocumentVectors& vectors, int64_t num_lists,
                                                  uint64_t seed, const StopCheck& check);

// The starting point of k-means.
struct CentroidStart {
  int64_t num_centroids = 0;
  int num_iterations = 0;
  // [num_centroids, d]; empty: points drawn with a fixed seed.
  std::vector<float> centroids = {};
};

// Runs the same k-means on all `points` [n, d], each of norm 1. Requires n >= num_centroids.
// Errors: those of `check`.
absl::StatusOr<std::vector<float>> ClusterPoints(std::span<const float> points, int32_t d,
                                                 const CentroidStart& start,
                                                 const StopCheck& check);

// Writes to `nearest` [m, count] for each of `rows` [m, d] the `count` centroids [num_lists, d]
// with the largest inner products, in unspecified order. Uses one thread. Requires 1 <= count <=
// num_lists and a BLAS with one thread.
void NearestCentroids(std::span<const float> centroids, std::span<const float> rows, int32_t d,
                      int64_t count, std::span<uint32_t> nearest);

}  // namespace braid

#endif  // BRAID_RETRIEVAL_COARSE_CENTROIDS_H_
