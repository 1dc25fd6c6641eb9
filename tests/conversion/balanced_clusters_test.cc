#include "conversion/balanced_clusters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/splitmix.h"
#include "retrieval/parallel_for.h"

namespace braid {
namespace balanced_clusters_test {

using testing::Each;

std::vector<float> RandomNumbers(int64_t count, uint64_t seed) {
  std::vector<float> numbers(count);
  for (float& number : numbers) {
    number = static_cast<float>(2 * UnitInterval(NextSplitMix64(&seed)) - 1);
  }
  return numbers;
}

std::vector<int64_t> SizesOf(const std::vector<int32_t>& cluster_of, int32_t num_clusters) {
  std::vector<int64_t> sizes(num_clusters);
  for (const int32_t cluster : cluster_of) ++sizes.at(cluster);
  return sizes;
}

double CostOf(const std::vector<float>& costs, const std::vector<int32_t>& cluster_of, int32_t n) {
  double sum = 0;
  for (size_t i = 0; i < cluster_of.size(); ++i) sum += costs[i * n + cluster_of[i]];
  return sum;
}

// Points of length 1, [n, dimension], and the squared distances of each to each mean.
struct UnitPoints {
  UnitPoints(const std::vector<float>& points, int64_t width) : dimension(width), values(points) {
    for (size_t i = 0; i < values.size(); i += dimension) {
      double squares = 0;
      for (int64_t k = 0; k < dimension; ++k) squares += double{values[i + k]} * values[i + k];
      for (int64_t k = 0; k < dimension; ++k) {
        values[i + k] = static_cast<float>(values[i + k] / std::sqrt(squares));
      }
    }
  }

  // Returns the means of the clusters, [num_clusters, dimension].
  std::vector<double> MeansOf(const std::vector<int32_t>& cluster_of, int32_t num_clusters) const {
    const double size = static_cast<double>(cluster_of.size()) / num_clusters;
    std::vector<double> means(num_clusters * dimension);
    for (size_t i = 0; i < values.size(); ++i) {
      means[cluster_of[i / dimension] * dimension + i % dimension] += values[i] / size;
    }
    return means;
  }

  // Returns [n, means].
  std::vector<float> DistancesTo(const std::vector<double>& means) const {
    std::vector<float> distances;
    for (size_t i = 0; i < values.size(); i += dimension) {
      for (size_t j = 0; j < means.size(); j += dimension) {
        double squares = 0;
        for (int64_t k = 0; k < dimension; ++k) {
          squares += std::pow(values[i + k] - means[j + k], 2);
        }
        distances.push_back(static_cast<float>(squares));
      }
    }
    return distances;
  }

  int64_t dimension;
  std::vector<float> values;
};

// The minimum by the Hungarian method (Kuhn 1955, in the O(n^3) form with potentials), each cluster
// repeated once for each of its places.
double MinimumByHungarianMethod(const std::vector<float>& costs, int n, int num_clusters) {
  const double infinity = std::numeric_limits<double>::infinity();
  const int places = n / num_clusters;
  const auto cost = [&](int row, int column) {
    return static_cast<double>(costs[(row - 1) * num_clusters + (column - 1) / places]);
  };
  std::vector<double> u(n + 1), v(n + 1);
  std::vector<int> row_of(n + 1), way(n + 1);
  for (int row = 1; row <= n; ++row) {
    row_of[0] = row;
    int column = 0;
    std::vector<double> least(n + 1, infinity);
    std::vector<bool> used(n + 1);
    do {
      used[column] = true;
      const int current = row_of[column];
      double delta = infinity;
      int next = 0;
      for (int j = 1; j <= n; ++j) {
        if (used[j]) continue;
        const double reduced = cost(current, j) - u[current] - v[j];
        if (reduced < least[j]) {
          least[j] = reduced;
          way[j] = column;
        }
        if (least[j] < delta) {
          delta = least[j];
          next = j;
        }
      }
      for (int j = 0; j <= n; ++j) {
        if (used[j]) {
          u[row_of[j]] += delta;
          v[j] -= delta;
        } else {
          least[j] -= delta;
        }
      }
      column = next;
    } while (row_of[column] != 0);
    for (; column != 0; column = way[column]) row_of[column] = row_of[way[column]];
  }
  double sum = 0;
  for (int j = 1; j <= n; ++j) sum += cost(row_of[j], j);
  return sum;
}

TEST(BalancedClustersTest, AssignmentCostsAsMuchAsTheHungarianMethods) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const int num_clusters = 1 + static_cast<int>(Mix64(seed) % 6);
    const int n = num_clusters * (1 + static_cast<int>(Mix64(seed, 1) % 7));
    std::vector<float> costs = RandomNumbers(n * num_clusters, seed);
    // Half of the instances have many equal costs.
    if (seed % 2 == 1) {
      for (float& cost : costs) cost = std::round(3 * cost);
    }
    const double minimum = MinimumByHungarianMethod(costs, n, num_clusters);
    std::vector<double> prices(num_clusters, 0);
    for (const char* const prices_of : {"zero", "the same costs"}) {
      const auto cluster_of = AssignBalanced(costs, n, num_clusters, &prices);
      EXPECT_THAT(SizesOf(cluster_of, num_clusters), Each(n / num_clusters));
      EXPECT_NEAR(CostOf(costs, cluster_of, num_clusters), minimum, 1e-5)
          << "seed " << seed << ", prices of " << prices_of;
    }
  }
}

TEST(BalancedClustersTest, AssignmentToRealMeansCostsAsMuchAsTheHungarianMethods) {
  for (const int32_t num_clusters : {8, 32}) {
    const UnitPoints points(RandomNumbers(128 * 12, num_clusters), 12);
    const auto first = points.values.begin();
    const std::vector<float> costs = points.DistancesTo({first, first + num_clusters * 12});
    std::vector<double> prices(num_clusters, 0);
    const auto cluster_of = AssignBalanced(costs, 128, num_clusters, &prices);
    EXPECT_NEAR(CostOf(costs, cluster_of, num_clusters),
                MinimumByHungarianMethod(costs, 128, num_clusters), 1e-5);
  }
}

// The costs are computed again from the clusters of the first and of the last round.
TEST(BalancedClustersTest, SizesAreEqualAndTheCostFallsUntilNoAssignmentLowersIt) {
  for (const int32_t num_clusters : {1, 2, 8, 64}) {
    const auto numbers = RandomNumbers(512 * 16, num_clusters);
    const UnitPoints points(numbers, 16);
    const auto run = [&](int max_rounds) {
      return ClusterBalanced(numbers, 512, 16, num_clusters, {.seed = 7, .max_rounds = max_rounds});
    };
    const auto distances_of = [&](const BalancedClusters& clusters) {
      return points.DistancesTo(points.MeansOf(clusters.cluster_of, num_clusters));
    };
    const auto clusters = run(1000), begun = run(1);
    ASSERT_TRUE(clusters.ok()) << clusters.status();
    EXPECT_THAT(SizesOf(clusters->cluster_of, num_clusters), Each(512 / num_clusters));
    const std::vector<double>& costs = clusters->costs;
    ASSERT_FALSE(costs.empty());
    EXPECT_TRUE(std::ranges::is_sorted(costs, std::greater<>()));
    EXPECT_NEAR(CostOf(distances_of(*begun), begun->cluster_of, num_clusters), costs[0], 1e-3);
    const std::vector<float> distances = distances_of(*clusters);
    EXPECT_NEAR(CostOf(distances, clusters->cluster_of, num_clusters), costs.back(), 1e-3);
    std::vector<double> prices(num_clusters, 0);
    const auto again = AssignBalanced(distances, 512, num_clusters, &prices);
    EXPECT_GT(CostOf(distances, again, num_clusters), costs.back() - 1e-3);
  }
}

TEST(BalancedClustersTest, FindsGroupsThatAreThere) {
  // Points of group g point in direction g, with noise; groups are interleaved.
  constexpr int kGroups = 8, kPoints = 160, kDimension = 12;
  std::vector<float> points = RandomNumbers(kPoints * kDimension, 3);
  for (int i = 0; i < kPoints; ++i) {
    for (int k = 0; k < kDimension; ++k) points[i * kDimension + k] *= .1f;
    points[i * kDimension + i % kGroups] += 1 + static_cast<float>(i % 3);
  }
  const auto clusters = ClusterBalanced(points, kPoints, kDimension, kGroups, {.seed = 1});
  ASSERT_TRUE(clusters.ok()) << clusters.status();
  for (int i = kGroups; i < kPoints; ++i) {
    EXPECT_EQ(clusters->cluster_of[i], clusters->cluster_of[i % kGroups]) << i;
  }
}

TEST(BalancedClustersTest, ResultDoesNotDependOnThreads) {
  const auto points = RandomNumbers(1024 * 24, 5);
  SetRetrievalThreads(1);
  const auto expected = ClusterBalanced(points, 1024, 24, 16, {.seed = 2});
  for (const int threads : {2, 3}) {
    SetRetrievalThreads(threads);
    const auto clusters = ClusterBalanced(points, 1024, 24, 16, {.seed = 2});
    EXPECT_EQ(clusters->cluster_of, expected->cluster_of);
    EXPECT_EQ(clusters->costs, expected->costs);
  }
  SetRetrievalThreads(0);
}

TEST(BalancedClustersTest, PointsMayBeEqualOrZeroOrAlone) {
  const std::vector<float> equal(32 * 4, 1.5f), zero(32 * 4, 0.0f);
  for (const std::vector<float>& points : {equal, zero}) {
    const auto clusters = ClusterBalanced(points, 32, 4, 8, {});
    ASSERT_TRUE(clusters.ok()) << clusters.status();
    EXPECT_THAT(SizesOf(clusters->cluster_of, 8), Each(4));
  }
  const auto alone = ClusterBalanced(RandomNumbers(32 * 4, 1), 32, 4, 32, {});
  ASSERT_TRUE(alone.ok()) << alone.status();
  EXPECT_THAT(SizesOf(alone->cluster_of, 32), Each(1));
  EXPECT_NEAR(alone->costs.back(), 0, 1e-9);
}

TEST(BalancedClustersTest, PointsMustBeFinite) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), infinity, -infinity}) {
    std::vector<float> points = RandomNumbers(32 * 4, 1);
    points[7 * 4 + 2] = bad;
    const absl::Status refused = ClusterBalanced(points, 32, 4, 8, {}).status();
    EXPECT_TRUE(absl::IsInvalidArgument(refused));
    EXPECT_EQ(refused.message(), "point 7 of 32 has a value that is not finite");
  }
}

TEST(BalancedClustersTest, NumberOfClustersMustDivideThePoints) {
  const std::vector<float> points(10 * 2, 1.0f);
  for (const int32_t num_clusters : {-1, 0, 3, 11}) {
    EXPECT_TRUE(absl::IsInvalidArgument(ClusterBalanced(points, 10, 2, num_clusters, {}).status()));
  }
}

}  // namespace balanced_clusters_test
}  // namespace braid
