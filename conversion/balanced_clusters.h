// Clusters of equal size: balanced k-means (Malinen and Fränti, "Balanced K-Means for Clustering",
// 2014), with an exactly optimal assignment in every round. EMoE (arXiv 2310.10908, section 3.1)
// groups the hidden units of an FFN with it.
#ifndef BRAID_CONVERSION_BALANCED_CLUSTERS_H_
#define BRAID_CONVERSION_BALANCED_CLUSTERS_H_

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"

namespace braid {

struct BalancedClusters {
  // The cluster of each point, [num_points]; num_points / num_clusters points in each cluster.
  std::vector<int32_t> cluster_of;
  // Sum of the squared distances of the points to the means of their clusters after each round;
  // it never rises.
  std::vector<double> costs;
};

struct ClusterSettings {
  uint64_t seed = 0;
  // Clustering ends when a round does not lower the cost, and at the latest after this many.
  int max_rounds = 50;
};

// Clusters `points`, [num_points, dimension] row-major, after scaling each to length 1 (zero rows
// stay zero). The first means are chosen as by k-means++. The result does not depend on the number
// of threads. InvalidArgument when num_clusters does not divide num_points, or a value is not
// finite.
absl::StatusOr<BalancedClusters> ClusterBalanced(std::span<const float> points, int64_t num_points,
                                                 int64_t dimension, int32_t num_clusters,
                                                 const ClusterSettings& settings);

// Assigns each point to a cluster so that all clusters have the same size and the sum of the costs
// is minimal, by shortest augmenting paths over the clusters. costs: [num_points, num_clusters]
// row-major, finite; num_clusters divides num_points. `prices`, [num_clusters], are those of an
// earlier assignment of similar costs, or zeros; they shorten the search, do not change the minimum
// and are updated.
std::vector<int32_t> AssignBalanced(std::span<const float> costs, int64_t num_points,
                                    int32_t num_clusters, std::vector<double>* prices);

}  // namespace braid

#endif  // BRAID_CONVERSION_BALANCED_CLUSTERS_H_
