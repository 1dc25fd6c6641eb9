#include "retrieval/document_clusters.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <set>
#include <vector>

#include "tests/base/status_matchers.h"

namespace braid {
namespace document_clusters_test {

constexpr int32_t kDimension = 24;

absl::Status GoOn() { return absl::OkStatus(); }

// Vectors of norm 1 around seeded centers, one group after the other.
struct Groups {
  Groups(const std::vector<int>& sizes, uint64_t seed, float noise = 0.08f) {
    std::mt19937_64 random(seed);
    std::normal_distribution<float> normal;
    for (size_t group = 0; group < sizes.size(); ++group) {
      std::vector<float> center(kDimension);
      for (float& x : center) x = normal(random) / std::sqrt(float{kDimension});
      for (int i = 0; i < sizes[group]; ++i) {
        std::vector<float> row(center);
        for (float& x : row) x += noise * normal(random);
        Add(row);
        group_of.push_back(group);
      }
    }
  }

  void Add(const std::vector<float>& row) {
    const float norm = std::sqrt(std::inner_product(row.begin(), row.end(), row.begin(), 0.0f));
    for (const float x : row) values.push_back(norm > 0 ? x / norm : 0);
  }

  DocumentVectors vectors() const {
    return {values, static_cast<int64_t>(values.size()) / kDimension, kDimension};
  }
  std::vector<uint32_t> All() const {
    std::vector<uint32_t> all(static_cast<size_t>(vectors().n));
    std::iota(all.begin(), all.end(), 0u);
    return all;
  }
  std::vector<uint32_t> Cluster(int64_t num_clusters, uint64_t seed = 1) const {
    const auto clusters = ClusterDocuments(vectors(), All(), num_clusters, seed, GoOn);
    EXPECT_OK(clusters);
    return clusters.value_or(std::vector<uint32_t>());
  }

  std::vector<float> values;
  std::vector<size_t> group_of;
};

// Group sizes are descending, so cluster i should be group i.
TEST(DocumentClustersTest, FindsSeparateGroupsForEverySeed) {
  for (uint64_t seed = 0; seed < 12; ++seed) {
    const Groups groups({400, 200, 90, 50, 30, 20, 12, 5}, seed);
    const std::vector<uint32_t> clusters = groups.Cluster(8, seed);
    EXPECT_TRUE(std::ranges::equal(clusters, groups.group_of)) << "seed " << seed;
  }
}

TEST(DocumentClustersTest, AssignsUnfittedDocumentsToTheNearestCenter) {
  const Groups groups({300, 200, 100}, 3);
  std::vector<uint32_t> fitted;
  for (const uint32_t document : groups.All()) {
    // Fits the fewest documents of the largest group, so it becomes the last cluster.
    const int every = groups.group_of[document] == 0 ? 30 : 3;
    if (document % every == 0) fitted.push_back(document);
  }
  const auto clusters = ClusterDocuments(groups.vectors(), fitted, 3, 1, GoOn);
  ASSERT_OK(clusters);
  const std::vector<uint32_t> cluster_of_group = {2, 0, 1};
  for (const uint32_t document : groups.All()) {
    EXPECT_EQ((*clusters)[document], cluster_of_group[groups.group_of[document]]) << document;
  }
}

// Uses separate groups, because rounding could decide where groups overlap.
TEST(DocumentClustersTest, DoesNotDependOnThreads) {
  for (uint64_t seed = 0; seed < 5; ++seed) {
    const Groups groups({1500, 1500, 1500, 1500}, seed, /*noise=*/0.5f);
    SetRetrievalThreads(1);
    const std::vector<uint32_t> alone = groups.Cluster(7, seed);
    SetRetrievalThreads(3);
    EXPECT_EQ(groups.Cluster(7, seed), alone);
    SetRetrievalThreads(0);
    EXPECT_EQ(std::set<uint32_t>(alone.begin(), alone.end()).size(), 7u);
  }
}

TEST(DocumentClustersTest, AreNumberedBySize) {
  const Groups groups({700, 900, 800}, 5, /*noise=*/0.6f);
  std::vector<int64_t> sizes(6, 0);
  for (const uint32_t cluster : groups.Cluster(6)) ++sizes.at(cluster);
  EXPECT_TRUE(std::ranges::is_sorted(sizes, std::ranges::greater()));
}

TEST(DocumentClustersTest, DocumentsWithoutWordsDoNotFormClusters) {
  Groups groups({60, 40}, 6);
  const std::vector<uint32_t> without = groups.Cluster(2);
  for (int i = 0; i < 30; ++i) groups.Add(std::vector<float>(kDimension, 0.0f));
  std::vector<uint32_t> with = groups.Cluster(2);
  ASSERT_EQ(with.size(), 130u);
  with.resize(100);
  EXPECT_EQ(with, without);
}

TEST(DocumentClustersTest, LeavesClustersEmptyIfDocumentsAreEqual) {
  Groups groups({}, 7);
  std::vector<float> row(kDimension, 0.0f);
  for (int i = 0; i < 20; ++i) {
    std::ranges::fill(row, 0.0f);
    row[static_cast<size_t>(i % 10 < 7 ? 0 : 5)] = 1;
    groups.Add(row);
  }
  const std::vector<uint32_t> clusters = groups.Cluster(5);
  for (uint32_t i = 0; i < 20; ++i) EXPECT_EQ(clusters[i], i % 10 < 7 ? 0u : 1u);
}

TEST(DocumentClustersTest, RequiresADocumentPerCluster) {
  Groups groups({3, 2}, 8);
  const std::vector<uint32_t> own = groups.Cluster(5);
  EXPECT_EQ(std::set<uint32_t>(own.begin(), own.end()).size(), 5u);
  groups.Add(std::vector<float>(kDimension, 0.0f));
  EXPECT_FAILS(ClusterDocuments(groups.vectors(), groups.All(), 6, 1, GoOn),
               absl::StatusCode::kFailedPrecondition, "6 clusters", "5 training documents");
}

TEST(DocumentClustersTest, StopsWhenCancelled) {
  const Groups groups({2000, 2000}, 9);
  EXPECT_FAILS(ClusterDocuments(groups.vectors(), groups.All(), 4, 1,
                                [] { return absl::CancelledError("stop"); }),
               absl::StatusCode::kCancelled, "stop");
}

TEST(DocumentClustersTest, StopsWhileItReadsTheVectors) {
  Groups groups({}, 10);
  for (int i = 0; i < 10'000; ++i) groups.Add(std::vector<float>(kDimension, 0.0f));
  for (const int last : {1, 2, 3}) {
    int asked = 0;
    EXPECT_FAILS(
        ClusterDocuments(
            groups.vectors(), groups.All(), 4, 1,
            [&] { return ++asked < last ? absl::OkStatus() : absl::CancelledError("stop"); }),
        absl::StatusCode::kCancelled, "stop");
    EXPECT_EQ(asked, last);
  }
}

}  // namespace document_clusters_test
}  // namespace braid
