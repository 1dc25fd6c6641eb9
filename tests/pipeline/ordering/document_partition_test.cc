#include "pipeline/ordering/document_partition.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

namespace braid {
namespace document_partition_test {

constexpr int32_t kDimension = 16;

// Vectors of norm 1 around `num_clusters` centers, document i in cluster i % num_clusters.
std::vector<float> Clusters(int64_t n, int64_t num_clusters) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  std::vector<float> centers(num_clusters * kDimension), values;
  for (float& x : centers) x = normal(random);
  for (int64_t i = 0; i < n; ++i) {
    float squares = 0;
    for (int32_t j = 0; j < kDimension; ++j) {
      values.push_back(centers[i % num_clusters * kDimension + j] + 0.1f * normal(random));
      squares += values.back() * values.back();
    }
    for (int32_t j = 0; j < kDimension; ++j) values[i * kDimension + j] /= std::sqrt(squares);
  }
  return values;
}

std::vector<uint32_t> Partition(const std::vector<float>& values, int64_t num_partitions) {
  const DocumentVectors vectors{values, static_cast<int64_t>(values.size()) / kDimension,
                                kDimension};
  const auto parts =
      PartitionDocuments(vectors, num_partitions, /*seed=*/1, [] { return absl::OkStatus(); });
  EXPECT_TRUE(parts.ok()) << parts.status();
  return *parts;
}

TEST(DocumentPartitionTest, PartsAreOfAboutEqualSizeAndKeepClustersTogether) {
  constexpr int64_t kDocuments = 4000, kClusters = 64, kPartitions = 4;
  const std::vector<uint32_t> parts = Partition(Clusters(kDocuments, kClusters), kPartitions);
  std::vector<int64_t> sizes(kPartitions, 0);
  std::vector<std::vector<int64_t>> of_cluster(kClusters, std::vector<int64_t>(kPartitions, 0));
  for (int64_t i = 0; i < kDocuments; ++i) {
    ASSERT_LT(parts[i], kPartitions);
    ++sizes[parts[i]];
    ++of_cluster[i % kClusters][parts[i]];
  }
  for (int64_t size : sizes) EXPECT_NEAR(static_cast<double>(size), 1000, 350);
  int64_t together = 0;
  for (const auto& counts : of_cluster) together += std::ranges::max(counts);
  EXPECT_GT(together, kDocuments * 95 / 100);
}

TEST(DocumentPartitionTest, DoesNotDependOnThreads) {
  const std::vector<float> values = Clusters(3000, 50);
  SetRetrievalThreads(1);
  const std::vector<uint32_t> alone = Partition(values, 5);
  SetRetrievalThreads(3);
  EXPECT_EQ(Partition(values, 5), alone);
  SetRetrievalThreads(0);
}

TEST(DocumentPartitionTest, AcceptsCorporaSmallerThanTheNumberOfParts) {
  EXPECT_EQ(Partition(Clusters(1, 1), 1), std::vector<uint32_t>{0});
  EXPECT_TRUE(Partition({}, 3).empty());
  for (uint32_t part : Partition(Clusters(3, 3), 3)) EXPECT_LT(part, 3u);
}

TEST(DocumentPartitionTest, OnePartForEachFiftyMillionDocuments) {
  EXPECT_EQ(NumOrderPartitions(0, 50'000'000), 1);
  EXPECT_EQ(NumOrderPartitions(0, 50'000'001), 2);
  EXPECT_EQ(NumOrderPartitions(0, 235'000'000), 5);
  EXPECT_EQ(NumOrderPartitions(8, 1000), 8);
  EXPECT_EQ(NumOrderPartitions(8, 3), 3);
  EXPECT_EQ(NumOrderPartitions(0, 0), 1);
}

TEST(DocumentPartitionTest, StopsWhenTheCallbackFails) {
  const std::vector<float> values = Clusters(2000, 10);
  const auto parts = PartitionDocuments({values, 2000, kDimension}, 4, 1,
                                        [] { return absl::CancelledError("stop"); });
  EXPECT_TRUE(absl::IsCancelled(parts.status()));
}

}  // namespace document_partition_test
}  // namespace braid
