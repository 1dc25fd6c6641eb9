// The centroids that divide a corpus into lists of similar documents.
#ifndef BRAID_RETRIEVAL_COARSE_CENTROIDS_H_
#define BRAID_RETRIEVAL_COARSE_CENTROIDS_H_

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "retrieval/document_vectors.h"
#include "retrieval/parallel_for.h"

namespace braid {

// Spherical k-means (FAISS's) on a seeded sample of 32 documents a list, eight
// iterations: 2 * 32 * 8 * num_lists^2 * d floating-point operations. [num_lists, d],
// each of norm 1. The same for any number of threads.
// Errors: INVALID_ARGUMENT for fewer documents than lists, those of `check`.
absl::StatusOr<std::vector<float>> TrainCentroids(const DocumentVectors& vectors, int64_t num_lists,
                                                  uint64_t seed, const StopCheck& check);

// What k-means begins with.
struct CentroidStart {
  int64_t num_centroids = 0;
  int num_iterations = 0;
  // [num_centroids, d], or none: points chosen at random, always the same.
  std::vector<float> centroids = {};
};

// The same k-means on all `points` [n, d], each of norm 1. Errors: those of `check`.
// Requires n >= num_centroids.
absl::StatusOr<std::vector<float>> ClusterPoints(std::span<const float> points, int32_t d,
                                                 const CentroidStart& start,
                                                 const StopCheck& check);

// For each of `rows` [m, d] the `count` centroids [num_lists, d] of largest inner
// product, in no order: `nearest` is [m, count]. One thread.
// Requires: 1 <= count <= num_lists, BLAS set to one thread.
void NearestCentroids(std::span<const float> centroids, std::span<const float> rows, int32_t d,
                      int64_t count, std::span<uint32_t> nearest);

}  // namespace braid

#endif  // BRAID_RETRIEVAL_COARSE_CENTROIDS_H_
