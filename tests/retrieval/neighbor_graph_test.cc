#include "retrieval/neighbor_graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "retrieval/inner_product.h"

namespace braid {
namespace neighbor_graph_test {

struct Vectors {
  int64_t n;
  int32_t d;
  std::vector<float> values;

  const float* row(int64_t i) const { return values.data() + i * d; }
};

void NormalizeRow(float* row, int32_t d) {
  double squares = 0;
  for (int32_t j = 0; j < d; ++j) squares += double{row[j]} * row[j];
  for (int32_t j = 0; j < d; ++j) row[j] = static_cast<float>(row[j] / std::sqrt(squares));
}

// Returns unit vectors around `num_centers` random directions.
Vectors RandomVectors(int64_t n, int32_t d, uint32_t seed, int64_t num_centers = 8) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> centers(num_centers * d);
  for (float& x : centers) x = normal(random);
  Vectors vectors{n, d, std::vector<float>(n * d)};
  for (int64_t i = 0; i < n; ++i) {
    const float* center = centers.data() + random() % num_centers * d;
    float* row = vectors.values.data() + i * d;
    for (int32_t j = 0; j < d; ++j) row[j] = center[j] + normal(random);
    NormalizeRow(row, d);
  }
  return vectors;
}

v1::NeighborConfig Config(int32_t k, const std::string& index = "", int32_t nprobe = 0,
                          int32_t recall_sample = 0) {
  v1::NeighborConfig config;
  if (k != 0) config.set_k(k);
  config.set_index(index);
  if (nprobe != 0) config.set_nprobe(nprobe);
  if (recall_sample != 0) config.set_recall_sample(recall_sample);
  return config;
}

struct NeighborGraph {
  int32_t k = 0;
  std::vector<uint32_t> ids;  // [n, k]
  std::vector<float> scores;  // [n, k]
  double recall_at_k = 0;
  std::string index_description;
};

absl::StatusOr<NeighborGraph> TryToBuild(const Vectors& vectors, const v1::NeighborConfig& config,
                                         uint64_t seed = 0) {
  const StopCheck check = [] { return absl::OkStatus(); };
  ASSIGN_OR_RETURN(
      const NeighborGraphSearch search,
      NeighborGraphSearch::Prepare({vectors.values, vectors.n, vectors.d}, config, seed, check));
  const int32_t k = search.k();
  std::vector<uint32_t> ids(vectors.n * k);
  std::vector<float> scores(vectors.n * k);
  RETURN_IF_ERROR(search.Find(0, {ids, scores}, check));
  const double recall = search.Recall(ids, scores);
  return NeighborGraph{k, std::move(ids), std::move(scores), recall, search.description()};
}

NeighborGraph Build(const Vectors& vectors, const v1::NeighborConfig& config, uint64_t seed = 0) {
  auto graph = TryToBuild(vectors, config, seed);
  EXPECT_TRUE(graph.ok()) << graph.status();
  return *std::move(graph);
}

// Computes the graph by comparing every pair.
NeighborGraph BruteForce(const Vectors& vectors, int32_t k) {
  NeighborGraph graph;
  graph.k = k;
  for (int64_t i = 0; i < vectors.n; ++i) {
    std::vector<std::pair<float, uint32_t>> others;  // (-score, id) in the required order
    for (int64_t j = 0; j < vectors.n; ++j) {
      if (j != i) others.push_back({-InnerProduct(vectors.row(i), vectors.row(j), vectors.d), j});
    }
    std::sort(others.begin(), others.end());
    for (size_t j = 0; j < static_cast<size_t>(k); ++j) {
      graph.ids.push_back(j < others.size() ? others[j].second : kNoNeighbor);
      graph.scores.push_back(j < others.size() ? -others[j].first : 0);
    }
  }
  return graph;
}

void ExpectSameGraph(const NeighborGraph& got, const NeighborGraph& expected) {
  EXPECT_EQ(got.k, expected.k);
  EXPECT_EQ(got.ids, expected.ids);
  EXPECT_EQ(got.scores, expected.scores);
}

TEST(InnerProductTest, IsCloseToTheSumInDoublePrecision) {
  for (int32_t d : {1, 3, 15, 16, 17, 100, 512}) {
    const Vectors vectors = RandomVectors(2, d, d);
    double expected = 0;
    for (int32_t j = 0; j < d; ++j) expected += double{vectors.row(0)[j]} * vectors.row(1)[j];
    EXPECT_NEAR(InnerProduct(vectors.row(0), vectors.row(1), d), expected, 1e-6);
  }
}

// Uses one thread: tests run concurrently, and small OpenMP loops on busy cores mostly wait for
// each other.
class NeighborGraphTest : public testing::Test {
 protected:
  NeighborGraphTest() { SetRetrievalThreads(1); }
  ~NeighborGraphTest() override { SetRetrievalThreads(0); }
};

TEST_F(NeighborGraphTest, EqualsBruteForce) {
  for (int32_t d : {7, 32, 100}) {
    const Vectors vectors = RandomVectors(700, d, 11 + d);
    for (int32_t k : {1, 5, 20}) {
      const NeighborGraph graph = Build(vectors, Config(k));
      ExpectSameGraph(graph, BruteForce(vectors, k));
      EXPECT_EQ(graph.recall_at_k, 1.0);
      EXPECT_EQ(graph.index_description, "Flat (exact)");
    }
  }
}

TEST_F(NeighborGraphTest, EqualsBruteForceAcrossBlocks) {
  const Vectors vectors = RandomVectors(4200, 16, 5);
  ExpectSameGraph(Build(vectors, Config(10)), BruteForce(vectors, 10));
}

TEST_F(NeighborGraphTest, BreaksTiesByLowestIdAmongManyCopies) {
  std::mt19937 random(3);
  Vectors vectors = RandomVectors(600, 24, 4);
  // 5 originals with about 60 copies each, more than any k below, and zeros.
  for (int64_t i = 5; i < vectors.n; ++i) {
    float* row = vectors.values.data() + i * vectors.d;
    if (random() % 2 == 0) std::copy_n(vectors.row(random() % 5), vectors.d, row);
    if (random() % 10 == 0) std::fill_n(row, vectors.d, 0.0f);
  }
  for (int32_t k : {1, 4, 20}) {
    ExpectSameGraph(Build(vectors, Config(k)), BruteForce(vectors, k));
  }
}

TEST_F(NeighborGraphTest, LinksAllCopiesOfOneDocument) {
  Vectors vectors = RandomVectors(300, 8, 1);
  for (int64_t i = 1; i < vectors.n; ++i) {
    std::copy_n(vectors.row(0), vectors.d, vectors.values.data() + i * vectors.d);
  }
  ExpectSameGraph(Build(vectors, Config(3)), BruteForce(vectors, 3));
}

TEST_F(NeighborGraphTest, DoesNotDependOnThreads) {
  const Vectors vectors = RandomVectors(3000, 48, 6);
  const NeighborGraph expected = Build(vectors, Config(20));
  for (int threads : {2, 5}) {
    SetRetrievalThreads(threads);
    ExpectSameGraph(Build(vectors, Config(20)), expected);
  }
}

TEST_F(NeighborGraphTest, PadsRowsWhenThereAreFewDocuments) {
  for (int64_t n : {0, 1, 2, 5, 20, 30}) {
    const Vectors vectors = RandomVectors(n, 8, 20 + n);
    const NeighborGraph graph = Build(vectors, Config(20));
    ExpectSameGraph(graph, BruteForce(vectors, 20));
    EXPECT_EQ(graph.recall_at_k, 1.0);
  }
}

TEST_F(NeighborGraphTest, UsesTwentyNeighborsByDefault) {
  EXPECT_EQ(Build(RandomVectors(30, 8, 2), Config(0)).k, 20);
}

double Recall(const NeighborGraph& graph, const NeighborGraph& truth) {
  double found = 0;
  for (size_t row = 0; row < truth.ids.size(); row += truth.k) {
    for (int32_t j = 0; j < truth.k; ++j) {
      const auto begin = graph.ids.begin() + row;
      found += std::count(begin, begin + graph.k, truth.ids[row + j]);
    }
  }
  return found / static_cast<double>(truth.ids.size());
}

TEST_F(NeighborGraphTest, MeasuresTheRecallOfInvertedLists) {
  const Vectors vectors = RandomVectors(2500, 32, 8, 50);
  const NeighborGraph truth = BruteForce(vectors, 10);
  const NeighborGraph few = Build(vectors, Config(10, "IVF40,Flat", 1, 2500));
  EXPECT_NEAR(few.recall_at_k, Recall(few, truth), 1e-9);
  EXPECT_LT(few.recall_at_k, 0.999);
  EXPECT_EQ(few.index_description, "IVF40,Flat nprobe=1");
  const NeighborGraph sampled = Build(vectors, Config(10, "IVF40,Flat", 1, 500));
  EXPECT_NEAR(sampled.recall_at_k, few.recall_at_k, 0.05);
}

TEST_F(NeighborGraphTest, SearchesMoreListsUntilRecallIsGood) {
  const Vectors vectors = RandomVectors(2500, 32, 9, 50);
  const NeighborGraph graph = Build(vectors, Config(10, "IVF100,Flat"));
  EXPECT_GE(graph.recall_at_k, 0.95);
  EXPECT_GE(Recall(graph, BruteForce(vectors, 10)), 0.93);
}

TEST_F(NeighborGraphTest, FindsEveryNeighborWithAllListsProbed) {
  const Vectors vectors = RandomVectors(1000, 16, 10);
  ExpectSameGraph(Build(vectors, Config(10, "IVF8,Flat", 8)), BruteForce(vectors, 10));
}

TEST_F(NeighborGraphTest, RanksCompressedCandidatesByTrueScores) {
  const Vectors vectors = RandomVectors(3000, 32, 12, 40);
  const NeighborGraph graph = Build(vectors, Config(10, "IVF16,PQ16", 16, 3000));
  EXPECT_GT(graph.recall_at_k, 0.9);
  for (int64_t i = 0; i < vectors.n; ++i) {
    for (int64_t j = i * 10; j < (i + 1) * 10; ++j) {
      ASSERT_NE(graph.ids[j], kNoNeighbor);
      ASSERT_NE(graph.ids[j], i);
      EXPECT_EQ(graph.scores[j], InnerProduct(vectors.row(i), vectors.row(graph.ids[j]), 32));
      EXPECT_TRUE(j == i * 10 || graph.scores[j] <= graph.scores[j - 1]);
    }
  }
}

TEST_F(NeighborGraphTest, IsReproducibleWithAnIndex) {
  const Vectors vectors = RandomVectors(2000, 16, 13);
  const NeighborGraph graph = Build(vectors, Config(5, "IVF20,Flat", 2), 7);
  ExpectSameGraph(Build(vectors, Config(5, "IVF20,Flat", 2), 7), graph);
}

TEST_F(NeighborGraphTest, AcceptsAGraphIndex) {
  const Vectors vectors = RandomVectors(1000, 16, 14);
  EXPECT_GT(Build(vectors, Config(5, "HNSW16")).recall_at_k, 0.9);
}

TEST_F(NeighborGraphTest, PadsShortRowsOfAnIndex) {
  const Vectors vectors = RandomVectors(200, 8, 15);
  const NeighborGraph graph = Build(vectors, Config(150, "IVF5,Flat", 1));
  EXPECT_THAT(graph.ids, testing::Contains(kNoNeighbor));
  for (size_t j = 1; j < graph.ids.size(); ++j) {
    const bool after_end = j % 150 != 0 && graph.ids[j - 1] == kNoNeighbor;
    EXPECT_TRUE(!after_end || graph.ids[j] == kNoNeighbor);
  }
}

TEST_F(NeighborGraphTest, RejectsVectorsThatAreNotNormalized) {
  Vectors vectors = RandomVectors(10, 4, 17);
  const auto status = [&] { return TryToBuild(vectors, Config(3)).status(); };
  ASSERT_TRUE(status().ok());
  vectors.values[13] = 3;
  EXPECT_TRUE(absl::IsInvalidArgument(status()));
  EXPECT_THAT(std::string(status().message()), testing::HasSubstr("vector 3"));
  vectors.values[13] = std::nanf("");
  EXPECT_TRUE(absl::IsInvalidArgument(status()));
  vectors.values.pop_back();
  EXPECT_TRUE(absl::IsInvalidArgument(status()));
}

TEST_F(NeighborGraphTest, RejectsInvalidConfigurations) {
  const Vectors vectors = RandomVectors(100, 8, 18);
  for (const v1::NeighborConfig& config :
       {Config(-1), Config(1'000'000), Config(3, "nonsense"), Config(3, "IVF4,PQ0"),
        Config(3, "IVF4,PQ3"), Config(3, "", -1), Config(3, "", 0, -1), Config(3, "IVF500,Flat")}) {
    const auto status = TryToBuild(vectors, config).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << config.ShortDebugString() << status;
  }
}

TEST(AutomaticIndexTest, GrowsWithTheCorpus) {
  EXPECT_EQ(AutomaticIndex(0, 512), "Flat");
  EXPECT_EQ(AutomaticIndex(100'000, 512), "Flat");
  EXPECT_EQ(AutomaticIndex(100'001, 512), "IVF1264,Flat");
  EXPECT_EQ(AutomaticIndex(1'000'000, 512), "IVF4000,Flat");
  EXPECT_EQ(AutomaticIndex(100'000'000, 512), "IVF40000,PQ64");
  EXPECT_EQ(AutomaticIndex(100'000'000, 7), "IVF40000,PQ1");
}

}  // namespace neighbor_graph_test
}  // namespace braid
