#include "pipeline/ordering/ordering_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <random>

namespace braid {
namespace ordering_report_test {

// Returns unit vectors at these angles in degrees, one per document.
std::vector<float> OnCircle(std::initializer_list<double> degrees) {
  std::vector<float> vectors;
  for (double angle : degrees) {
    vectors.push_back(static_cast<float>(std::cos(angle * M_PI / 180)));
    vectors.push_back(static_cast<float>(std::sin(angle * M_PI / 180)));
  }
  return vectors;
}

OrderingReport Measure(const OrderingReportInput& input) {
  return *MeasureOrdering(input, [] { return absl::OkStatus(); });
}

TEST(OrderingReportTest, AveragesCosinesOverTheRightPairs) {
  const std::vector<float> embeddings = OnCircle({0, 60, 90, 0});
  const DocumentOrder order{{0, 1, 2, 3}, {0, 3}};
  // Two instances: documents 0, 1 | 2, 3.
  const std::vector<ProvenanceSpan> spans = {
      {0, 0, 0, 0, 2}, {1, 0, 0, 2, 2}, {2, 0, 1, 0, 2}, {3, 0, 1, 2, 2}};
  const OrderingReport report = Measure({.order_name = "SIMILARITY",
                                         .order = order,
                                         .embeddings = embeddings,
                                         .dimension = 2,
                                         .domains = {},
                                         .spans = spans,
                                         .sequence_length = 3});
  const double c30 = std::cos(M_PI / 6);
  EXPECT_NEAR(report.adjacent_cosine, (0.5 + c30 + 0) / 3, 1e-6);
  EXPECT_NEAR(report.adjacent_cosine_within_instances, (0.5 + 0) / 2, 1e-6);
  EXPECT_NEAR(report.adjacent_cosine_across_instances, c30, 1e-6);
}

TEST(OrderingReportTest, CountsPathsAndRestarts) {
  const DocumentOrder order{{0, 1, 2, 3, 4, 5, 6}, {0, 1, 3, 4}};  // lengths 1, 2, 1, 3
  const OrderingReport report = Measure({.order_name = "SIMILARITY", .order = order});
  EXPECT_EQ(report.restarts, 3);
  EXPECT_DOUBLE_EQ(report.mean_path_length, 7.0 / 4);
  EXPECT_DOUBLE_EQ(report.median_path_length, 1.5);
  EXPECT_EQ(report.max_path_length, 3);
  const DocumentOrder source = SourceOrder(4);
  const OrderingReport none = Measure({.order_name = "SOURCE", .order = source});
  EXPECT_EQ(none.restarts, 0);
  EXPECT_EQ(none.mean_path_length, 0);
}

TEST(OrderingReportTest, WeighsPurityByTokens) {
  const DocumentOrder order = SourceOrder(3);
  const std::vector<int32_t> domains = {0, 1, 0};
  // Instance 0: 6 of domain 0, 2 of domain 1. Instance 1: 1 of 1, 1 of 0.
  const std::vector<ProvenanceSpan> spans = {
      {0, 0, 0, 0, 6}, {1, 0, 0, 6, 2}, {1, 2, 1, 0, 1}, {2, 0, 1, 1, 1}};
  const OrderingReport report = Measure({.order_name = "SOURCE",
                                         .order = order,
                                         .domains = domains,
                                         .spans = spans,
                                         .sequence_length = 7});
  EXPECT_DOUBLE_EQ(report.domain_purity, 7.0 / 10);
}

TEST(OrderingReportTest, RandomPurityIsThatOfPackingTheRandomOrder) {
  std::mt19937_64 random(10);
  std::vector<ProvenanceSpan> spans, random_spans;
  std::vector<int32_t> domains, lengths;
  const auto pack = [&](std::span<const uint32_t> order, std::vector<ProvenanceSpan>* out) {
    Packer packer(31, 2, [out](auto, auto packed) {
      out->insert(out->end(), packed.begin(), packed.end());
      return absl::OkStatus();
    });
    for (uint32_t i : order) {
      ASSERT_TRUE(packer.Add(i, std::vector<int32_t>(lengths[i], 5)).ok());
    }
    ASSERT_TRUE(packer.Finish().ok());
  };
  for (int i = 0; i < 100; ++i) {
    domains.push_back(i / 25);
    lengths.push_back(static_cast<int32_t>(random() % 60));
  }
  const DocumentOrder source = SourceOrder(100);
  pack(source.order, &spans);
  const OrderingReport report = Measure({.order_name = "SOURCE",
                                         .order = source,
                                         .domains = domains,
                                         .spans = spans,
                                         .sequence_length = 31,
                                         .seed = 5});
  const DocumentOrder shuffled = RandomOrder(100, 5);
  pack(shuffled.order, &random_spans);
  const OrderingReport expected = Measure({.order_name = "RANDOM",
                                           .order = shuffled,
                                           .domains = domains,
                                           .spans = random_spans,
                                           .sequence_length = 31});
  EXPECT_DOUBLE_EQ(report.random_domain_purity, expected.domain_purity);
  EXPECT_GT(report.domain_purity, 0.9);
  EXPECT_LT(report.random_domain_purity, 0.9);
}

TEST(OrderingReportTest, RandomCosineIsOfAllDocumentsOfTheOrder) {
  // Two tight groups: in order, adjacent documents are of the same group; at random, half of them.
  std::vector<float> embeddings;
  for (int i = 0; i < 2000; ++i) {
    embeddings.push_back(i < 1000 ? 1.0f : 0.0f);
    embeddings.push_back(i < 1000 ? 0.0f : 3.0f);  // cosine, not inner product
  }
  const DocumentOrder order = SourceOrder(2000);
  const OrderingReport report =
      Measure({.order_name = "SOURCE", .order = order, .embeddings = embeddings, .dimension = 2});
  EXPECT_NEAR(report.adjacent_cosine, 1998.0 / 1999, 1e-6);
  EXPECT_NEAR(report.random_adjacent_cosine, 0.5, 0.05);
}

TEST(OrderingReportTest, ShuffledInstancesOfPlantedClustersAreSimilarInsideAndDiverseAcross) {
  // 200 clusters of 10 documents of 10 tokens; an instance of 50 tokens is half a cluster.
  constexpr int kClusters = 200, kSize = 10, kDimension = 32;
  std::mt19937 random(9);
  std::normal_distribution<float> normal;
  std::vector<float> embeddings;
  for (int cluster = 0; cluster < kClusters; ++cluster) {
    std::vector<float> center(kDimension);
    for (float& x : center) x = normal(random);
    for (int i = 0; i < kSize * kDimension; ++i) {
      embeddings.push_back(center[i % kDimension] + 0.1f * normal(random));
    }
  }
  const int64_t num_documents = kClusters * kSize, num_instances = num_documents / 5;
  const std::vector<uint32_t> stored = InstanceShuffle(num_instances, 3);
  std::vector<ProvenanceSpan> spans;
  for (int64_t instance = 0; instance < num_instances; ++instance) {
    for (int32_t i = 0; i < 5; ++i) {
      spans.push_back({.document = stored[instance] * 5 + static_cast<uint32_t>(i),
                       .document_offset = 0,
                       .instance = static_cast<uint32_t>(instance),
                       .instance_offset = i * 10,
                       .length = 10});
    }
  }
  const DocumentOrder order = SourceOrder(num_documents);
  const OrderingReport report = Measure({.order_name = "SIMILARITY",
                                         .order = order,
                                         .embeddings = embeddings,
                                         .dimension = kDimension,
                                         .spans = spans,
                                         .sequence_length = 49,
                                         .seed = 1});
  EXPECT_GT(report.adjacent_cosine_within_instances, 0.95);
  EXPECT_NEAR(report.random_adjacent_cosine_within_instances, 0, 0.05);
  EXPECT_NEAR(report.random_adjacent_cosine, 0, 0.05);
  EXPECT_NEAR(report.adjacent_cosine_across_instances, report.random_adjacent_cosine, 0.05);
}

TEST(OrderingReportTest, StopsWhenTheCallbackFails) {
  const DocumentOrder order = SourceOrder(10000);
  int num_asked = 0;
  const auto stop = [&] {
    ++num_asked;
    return absl::CancelledError("stop");
  };
  const auto report = MeasureOrdering({.order_name = "SOURCE", .order = order}, stop);
  EXPECT_TRUE(absl::IsCancelled(report.status()));
  EXPECT_EQ(num_asked, 1);
}

TEST(OrderingReportTest, WritesEveryFieldAsJson) {
  OrderingReport report;
  report.order = "SIMILARITY";
  report.num_documents = 12;
  report.adjacent_cosine = 0.25;
  report.k = 20;
  const nlohmann::json json = nlohmann::json::parse(ToJson(report));
  EXPECT_EQ(json["order"], "SIMILARITY");
  EXPECT_EQ(json["num_documents"], 12);
  EXPECT_EQ(json["adjacent_cosine"], 0.25);
  EXPECT_EQ(json["k"], 20);
  for (const char* key :
       {"random_adjacent_cosine", "adjacent_cosine_within_instances",
        "random_adjacent_cosine_within_instances", "adjacent_cosine_across_instances", "restarts",
        "mean_path_length", "median_path_length", "max_path_length", "domain_purity",
        "random_domain_purity", "recall_at_k"}) {
    EXPECT_TRUE(json.contains(key)) << key;
  }
}

TEST(OrderingReportTest, HandlesNoDocuments) {
  const DocumentOrder order;
  const OrderingReport report = Measure({.order_name = "SIMILARITY", .order = order});
  EXPECT_EQ(report.num_documents, 0);
  EXPECT_EQ(report.adjacent_cosine, 0);
}

}  // namespace ordering_report_test
}  // namespace braid
