#include "conversion/balanced_clusters.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "base/splitmix.h"
#include "retrieval/block_product.h"
#include "retrieval/parallel_for.h"

namespace braid {
namespace {

// Points in one matrix product. Fixed, so that the products have the same bits for any threads.
constexpr int64_t kBlock = 256;

struct Matrix {
  std::span<float> row(int64_t i) { return std::span(values).subspan(i * columns, columns); }
  std::span<const float> row(int64_t i) const {
    return std::span(values).subspan(i * columns, columns);
  }
  int64_t rows() const { return std::ssize(values) / columns; }

  int64_t columns;
  std::vector<float> values;  // [rows, columns]
};

double SquaredLength(std::span<const float> vector) {
  double sum = 0;
  for (const float value : vector) sum += static_cast<double>(value) * value;
  return sum;
}

Matrix Normalized(std::span<const float> points, int64_t dimension) {
  Matrix normalized{dimension, {points.begin(), points.end()}};
  ParallelFor(normalized.rows(), kBlock, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const double length = std::sqrt(SquaredLength(normalized.row(i)));
      if (length == 0) continue;
      for (float& value : normalized.row(i)) value = static_cast<float>(value / length);
    }
  });
  return normalized;
}

// distances: [points, means] = |mean|^2 - 2 <point, mean>, the squared distance without the part
// that is the same for all means.
void Distances(const Matrix& points, const Matrix& means, std::vector<float>* distances) {
  const int64_t num_means = means.rows();
  std::vector<float> lengths(num_means);
  for (int64_t j = 0; j < num_means; ++j) lengths[j] = SquaredLength(means.row(j));
  distances->resize(points.rows() * num_means);
  ParallelFor(points.rows(), kBlock, [&](int64_t begin, int64_t end) {
    float* const block = distances->data() + begin * num_means;
    BlockProduct(points.row(begin).data(), end - begin, means.values.data(), num_means,
                 static_cast<int32_t>(points.columns), block);
    for (int64_t i = 0; i < end - begin; ++i) {
      for (int64_t j = 0; j < num_means; ++j) {
        float& distance = block[i * num_means + j];
        distance = lengths[j] - 2 * distance;
      }
    }
  });
}

// Chooses points as the first means by k-means++: each with a probability in proportion to its
// squared distance to the nearest one before.
Matrix FirstMeans(const Matrix& points, const std::vector<double>& squared_lengths,
                  int32_t num_clusters, uint64_t seed) {
  uint64_t state = Mix64(seed, "balanced clusters");
  const int64_t num_points = points.rows();
  Matrix means{points.columns, std::vector<float>(num_clusters * points.columns)};
  std::vector<double> nearest(num_points, std::numeric_limits<double>::infinity());
  std::vector<float> distances;
  int64_t chosen = static_cast<int64_t>(UnitInterval(NextSplitMix64(&state)) * num_points);
  for (int32_t cluster = 0;; ++cluster) {
    std::ranges::copy(points.row(chosen), means.row(cluster).begin());
    if (cluster + 1 == num_clusters) return means;
    const auto mean = means.row(cluster);
    Distances(points, {points.columns, {mean.begin(), mean.end()}}, &distances);
    double sum = 0;
    for (int64_t i = 0; i < num_points; ++i) {
      const double distance = std::max(0.0, distances[i] + squared_lengths[i]);
      nearest[i] = std::min(nearest[i], distance);
      sum += nearest[i];
    }
    double rest = UnitInterval(NextSplitMix64(&state)) * sum;
    chosen = 0;
    while (chosen + 1 < num_points && (rest -= nearest[chosen]) > 0) ++chosen;
  }
}

// Moves the means to their clusters and returns the sum of squared distances of the points to them:
// `total`, the sum of the squared lengths of the points, minus the same of their means.
double MoveMeans(const Matrix& points, double total, const std::vector<int32_t>& cluster_of,
                 Matrix* means) {
  const int64_t num_clusters = means->rows();
  std::vector<std::vector<int64_t>> members(num_clusters);
  for (int64_t i = 0; i < std::ssize(cluster_of); ++i) members[cluster_of[i]].push_back(i);
  std::vector<double> explained(num_clusters, 0);
  ParallelFor(num_clusters, 1, [&](int64_t begin, int64_t end) {
    for (int64_t cluster = begin; cluster < end; ++cluster) {
      std::vector<double> sums(points.columns, 0);
      for (const int64_t i : members[cluster]) {
        std::ranges::transform(points.row(i), sums, sums.begin(), std::plus<double>());
      }
      const double size = static_cast<double>(members[cluster].size());
      for (int64_t k = 0; k < points.columns; ++k) {
        means->row(cluster)[k] = static_cast<float>(sums[k] / size);
        explained[cluster] += sums[k] * sums[k] / size;
      }
    }
  });
  return total - std::accumulate(explained.begin(), explained.end(), 0.0);
}

}  // namespace

absl::StatusOr<BalancedClusters> ClusterBalanced(std::span<const float> points, int64_t num_points,
                                                 int64_t dimension, int32_t num_clusters,
                                                 const ClusterSettings& settings) {
  if (num_clusters < 1 || num_points < num_clusters || num_points % num_clusters != 0) {
    return absl::InvalidArgumentError(absl::StrCat(num_points, " points cannot be put into ",
                                                   num_clusters, " clusters of the same size"));
  }
  const Matrix normalized = Normalized(points, dimension);
  std::vector<double> squared_lengths(num_points);
  for (int64_t i = 0; i < num_points; ++i) {
    squared_lengths[i] = SquaredLength(normalized.row(i));
    if (std::isfinite(squared_lengths[i])) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("point ", i, " of ", num_points, " has a value that is not finite"));
  }
  const double total = std::accumulate(squared_lengths.begin(), squared_lengths.end(), 0.0);
  Matrix means = FirstMeans(normalized, squared_lengths, num_clusters, settings.seed);
  std::vector<double> prices(num_clusters, 0);
  std::vector<float> distances;
  BalancedClusters clusters;
  for (int round = 0; round < settings.max_rounds; ++round) {
    Distances(normalized, means, &distances);
    std::vector<int32_t> cluster_of = AssignBalanced(distances, num_points, num_clusters, &prices);
    if (cluster_of == clusters.cluster_of) break;
    const double cost = MoveMeans(normalized, total, cluster_of, &means);
    if (!clusters.costs.empty() && cost >= clusters.costs.back()) break;
    clusters.cluster_of = std::move(cluster_of);
    clusters.costs.push_back(cost);
  }
  return clusters;
}

}  // namespace braid
