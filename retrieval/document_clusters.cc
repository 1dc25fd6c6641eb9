#include "retrieval/document_clusters.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "retrieval/coarse_centroids.h"
#include "retrieval/document_sample.h"
#include "retrieval/inner_product.h"
#include "retrieval/inverted_lists.h"

namespace braid {
namespace {

constexpr int64_t kDocumentsPerCluster = 1024;
constexpr size_t kDocumentsPerLook = 4096;
// K-means alone may merge two groups into one cluster and split a third after a bad start,
// especially if one group is much larger than another. So it starts with more groups, which are
// then joined.
constexpr int64_t kPartsPerCluster = 4;
constexpr int kIterationsOfParts = 8;
constexpr int kDocumentClustersIterations = 25;
// Candidate points drawn for each centroid.
constexpr int kNumTrials = 3;
// Below this distance two vectors of norm 1 are equal except for rounding.
constexpr float kLeastDistance = 1e-5f;

// Draws initial centroids one by one, each with a probability proportional to the distance (1 -
// cosine) from those before; of several candidates it keeps the one that leaves the smallest total
// distance.
class CentroidDraw {
 public:
  CentroidDraw(DocumentVectors points, uint64_t seed, const StopCheck& check)
      : points_(points), random_(seed), check_(check), distances_(points.n, 1.0f) {}

  // Returns up to `count` centroids [count, d]; fewer if every point is one of them.
  absl::StatusOr<std::vector<float>> Draw(int64_t count) {
    std::vector<float> centroids;
    for (int64_t i = 0; i < count && Sum(distances_) > 0; ++i) {
      ASSIGN_OR_RETURN(const int64_t chosen, BestOf(kNumTrials));
      centroids.insert(centroids.end(), points_.row(chosen), points_.row(chosen) + points_.d);
    }
    return centroids;
  }

 private:
  static double Sum(const std::vector<float>& distances) {
    return std::accumulate(distances.begin(), distances.end(), 0.0);
  }

  // Draws that many candidates and keeps the best, with the distances that it leaves.
  absl::StatusOr<int64_t> BestOf(int num_trials) {
    std::vector<float> least;
    int64_t best = 0;
    for (int trial = 0; trial < num_trials; ++trial) {
      const int64_t candidate = DrawPoint();
      ASSIGN_OR_RETURN(std::vector<float> distances, DistancesWith(candidate));
      if (!least.empty() && Sum(distances) >= Sum(least)) continue;
      best = candidate;
      least = std::move(distances);
    }
    distances_ = std::move(least);
    return best;
  }

  int64_t DrawPoint() {
    const double uniform = static_cast<double>(random_() >> 11) * 0x1.0p-53;
    const double target = uniform * Sum(distances_);
    double passed = 0;
    int64_t last = 0;
    for (int64_t i = 0; i < points_.n; ++i) {
      if (distances_[i] == 0) continue;
      last = i;
      passed += distances_[i];
      if (passed > target) break;
    }
    return last;
  }

  // Returns the distances to the nearest centroid if `candidate` were one.
  absl::StatusOr<std::vector<float>> DistancesWith(int64_t candidate) const {
    constexpr int64_t kPointsPerBlock = 4096;
    std::vector<float> distances = distances_;
    RETURN_IF_ERROR(ParallelForUntil(
        points_.n, kPointsPerBlock, check_,
        [&](int64_t begin, int64_t end, const std::atomic<bool>&) {
          for (int64_t i = begin; i < end; ++i) {
            const float distance =
                1 - InnerProduct(points_.row(i), points_.row(candidate), points_.d);
            distances[i] = std::min(distances[i], distance < kLeastDistance ? 0 : distance);
          }
        }));
    return distances;
  }

  const DocumentVectors points_;
  std::mt19937_64 random_;
  const StopCheck& check_;
  std::vector<float> distances_;  // [n] to the nearest centroid drawn so far
};

// Groups of points that are joined two by two. The sum of the points of a group is its centroid up
// to the length, and the length is the sum of the cosines of the points with the centroid.
class GroupMerge {
 public:
  GroupMerge(const DocumentVectors& points, const InvertedLists& groups) : d_(points.d) {
    for (int64_t group = 0; group < groups.num_lists(); ++group) {
      if (groups.documents(group).empty()) continue;
      std::vector<double>& sum = sums_.emplace_back(static_cast<size_t>(d_), 0.0);
      for (const uint32_t point : groups.documents(group)) {
        for (int32_t j = 0; j < d_; ++j) sum[j] += points.row(point)[j];
      }
    }
  }

  // Joins the two groups that lose the least of the sum of all cosines until `count` are left.
  void JoinTo(size_t count) {
    std::vector<std::vector<double>> losses(sums_.size());
    for (size_t a = 0; a < sums_.size(); ++a) {
      for (size_t b = 0; b < a; ++b) losses[a].push_back(Loss(a, b));
    }
    for (; sums_.size() > count; losses.pop_back()) {
      const auto [a, b] = Cheapest(losses);
      for (int32_t j = 0; j < d_; ++j) sums_[b][j] += sums_[a][j];
      // The last group replaces `a`, which was removed.
      std::swap(sums_[a], sums_.back());
      sums_.pop_back();
      for (const size_t changed : {a, b}) UpdateLosses(changed, &losses);
    }
  }

  // Returns the centroids [groups, d], each of norm 1.
  std::vector<float> Centroids() const {
    std::vector<float> centroids;
    for (const std::vector<double>& sum : sums_) {
      const double length = Length(sum);
      for (const double x : sum)
        centroids.push_back(length > 0 ? static_cast<float>(x / length) : 0);
    }
    return centroids;
  }

 private:
  static double Length(const std::vector<double>& sum) {
    return std::sqrt(std::inner_product(sum.begin(), sum.end(), sum.begin(), 0.0));
  }

  double Loss(size_t a, size_t b) const {
    std::vector<double> both = sums_[a];
    for (int32_t j = 0; j < d_; ++j) both[j] += sums_[b][j];
    return Length(sums_[a]) + Length(sums_[b]) - Length(both);
  }

  void UpdateLosses(size_t changed, std::vector<std::vector<double>>* losses) const {
    if (changed >= sums_.size()) return;  // the removed group was the last
    for (size_t other = 0; other < sums_.size(); ++other) {
      if (other == changed) continue;
      (*losses)[std::max(other, changed)][std::min(other, changed)] = Loss(changed, other);
    }
  }

  std::pair<size_t, size_t> Cheapest(const std::vector<std::vector<double>>& losses) const {
    std::pair<size_t, size_t> best = {1, 0};
    for (size_t a = 1; a < sums_.size(); ++a) {
      for (size_t b = 0; b < a; ++b) {
        if (losses[a][b] < losses[best.first][best.second]) best = {a, b};
      }
    }
    return best;
  }

  const int32_t d_;
  std::vector<std::vector<double>> sums_;
};

// Returns initial centroids [<= num_clusters, d], those of many small groups that were joined.
absl::StatusOr<std::vector<float>> FirstCentroids(const DocumentVectors& points,
                                                  int64_t num_clusters, uint64_t seed,
                                                  const StopCheck& check) {
  CentroidStart parts{.num_iterations = kIterationsOfParts};
  ASSIGN_OR_RETURN(
      parts.centroids,
      CentroidDraw(points, seed, check).Draw(std::min(points.n, kPartsPerCluster * num_clusters)));
  parts.num_centroids = static_cast<int64_t>(parts.centroids.size()) / points.d;
  ASSIGN_OR_RETURN(std::vector<float> centroids,
                   ClusterPoints(points.values, points.d, parts, check));
  ASSIGN_OR_RETURN(const InvertedLists groups,
                   InvertedLists::Assign(points, std::move(centroids), check));
  GroupMerge merge(points, groups);
  merge.JoinTo(static_cast<size_t>(num_clusters));
  return merge.Centroids();
}

// Returns the documents with a nonzero vector. The first read of all vectors, which may be a mapped
// file.
absl::StatusOr<std::vector<uint32_t>> NotZero(const DocumentVectors& vectors,
                                              std::span<const uint32_t> documents,
                                              const StopCheck& check) {
  std::vector<uint32_t> directed;
  for (size_t i = 0; i < documents.size(); ++i) {
    if (check && i % kDocumentsPerLook == 0) RETURN_IF_ERROR(check());
    const float* row = vectors.row(documents[i]);
    const bool zero = std::all_of(row, row + vectors.d, [](float value) { return value == 0; });
    if (!zero) directed.push_back(documents[i]);
  }
  return directed;
}

// Returns the rows of the documents from which clusters are computed.
std::vector<float> SamplePoints(const DocumentVectors& vectors, std::span<const uint32_t> documents,
                                int64_t count, uint64_t seed) {
  std::vector<uint32_t> sample =
      SampleDocuments(static_cast<int64_t>(documents.size()), count, seed);
  for (uint32_t& document : sample) document = documents[document];
  std::vector<float> points;
  GatherRows(vectors, sample, &points);
  return points;
}

// Renumbers the clusters so that the one with the most documents of `counted` is first.
std::vector<uint32_t> Renumber(std::vector<uint32_t> cluster_of, int64_t num_clusters,
                               std::span<const uint32_t> counted) {
  std::vector<int64_t> sizes(num_clusters, 0);
  for (uint32_t document : counted) ++sizes[cluster_of[document]];
  std::vector<uint32_t> by_size(num_clusters), number_of(num_clusters);
  std::iota(by_size.begin(), by_size.end(), 0u);
  std::ranges::stable_sort(by_size, std::greater<>(), [&](uint32_t i) { return sizes[i]; });
  for (uint32_t number = 0; number < num_clusters; ++number) number_of[by_size[number]] = number;
  for (uint32_t& cluster : cluster_of) cluster = number_of[cluster];
  return cluster_of;
}

}  // namespace

absl::StatusOr<std::vector<uint32_t>> ClusterDocuments(const DocumentVectors& vectors,
                                                       std::span<const uint32_t> fitted,
                                                       int64_t num_clusters, uint64_t seed,
                                                       const StopCheck& check) {
  ASSIGN_OR_RETURN(const std::vector<uint32_t> directed, NotZero(vectors, fitted, check));
  const auto num_directed = static_cast<int64_t>(directed.size());
  if (num_directed < num_clusters) {
    return absl::FailedPreconditionError(
        absl::StrCat("got ", num_clusters, " clusters for ", num_directed,
                     " training documents with words to embed, expected at most one per document"));
  }
  const std::vector<float> points =
      SamplePoints(vectors, directed, num_clusters * kDocumentsPerCluster, seed);
  const DocumentVectors sample{points, static_cast<int64_t>(points.size()) / vectors.d, vectors.d};
  CentroidStart start{.num_iterations = kDocumentClustersIterations};
  ASSIGN_OR_RETURN(start.centroids, FirstCentroids(sample, num_clusters, seed, check));
  start.num_centroids = static_cast<int64_t>(start.centroids.size()) / vectors.d;
  ASSIGN_OR_RETURN(std::vector<float> centroids, ClusterPoints(points, vectors.d, start, check));
  ASSIGN_OR_RETURN(const InvertedLists clusters,
                   InvertedLists::Assign(vectors, std::move(centroids), check));
  return Renumber(clusters.list_of(), clusters.num_lists(), fitted);
}

}  // namespace braid
