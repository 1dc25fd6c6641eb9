#include "retrieval/list_search.h"

#include <faiss/IndexFlat.h>
#include <faiss/IndexIVFFlat.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <set>
#include <vector>

#include "absl/status/status.h"
#include "retrieval/coarse_centroids.h"
#include "retrieval/faiss_call.h"
#include "retrieval/inner_product.h"
#include "retrieval/neighbor_ranking.h"

namespace braid {
namespace list_search_test {

// Returns unit vectors around ten directions, with `copies` of earlier ones and zeros in between.
std::vector<float> RandomVectors(int64_t n, int32_t d, uint32_t seed, double copies = 0) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::uniform_real_distribution<double> uniform;
  std::vector<float> centers(10 * d), values(n * d);
  for (float& x : centers) x = normal(random);
  for (int64_t i = 0; i < n; ++i) {
    float* row = values.data() + i * d;
    if (i > 0 && uniform(random) < copies) {
      const bool zero = uniform(random) < 0.1;
      if (!zero) std::copy_n(values.data() + random() % std::min<int64_t>(i, 3) * d, d, row);
      continue;
    }
    const float* center = centers.data() + random() % 10 * d;
    for (int32_t j = 0; j < d; ++j) row[j] = center[j] + normal(random);
    const float norm = std::sqrt(InnerProduct(row, row, d));
    for (int32_t j = 0; j < d; ++j) row[j] /= norm;
  }
  return values;
}

// Returns unit vectors with few nonzero numbers, as short texts have.
std::vector<float> SparseVectors(int64_t n, int32_t d, int num_entries, uint32_t seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> weight(0.5f, 2.0f);
  std::vector<float> values(n * d, 0.0f);
  for (int64_t i = 0; i < n; ++i) {
    float* row = values.data() + i * d;
    // Draws from 24 words, so that many documents share some.
    for (int entry = 0; entry < num_entries; ++entry) {
      const auto word = static_cast<int32_t>(random() % 24);
      row[word * 97 % d] += (word % 2 == 0 ? 1.0f : -1.0f) * weight(random);
    }
    const float norm = std::sqrt(InnerProduct(row, row, d));
    for (int32_t j = 0; j < d && norm > 0; ++j) row[j] /= norm;
  }
  return values;
}

struct Rows {
  std::vector<uint32_t> ids;
  std::vector<float> scores;
};

class ListSearchTest : public testing::TestWithParam<ListArithmetic> {
 protected:
  ListSearchTest() { SetRetrievalThreads(1); }
  ~ListSearchTest() override { SetRetrievalThreads(0); }

  void Make(int64_t n, int32_t d, int64_t num_lists, uint32_t seed, double copies = 0) {
    values_ = RandomVectors(n, d, seed, copies);
    vectors_ = {values_, n, d};
    auto centroids = TrainCentroids(vectors_, num_lists, seed, nullptr);
    ASSERT_TRUE(centroids.ok()) << centroids.status();
    auto lists = InvertedLists::Assign(vectors_, *std::move(centroids), nullptr);
    ASSERT_TRUE(lists.ok()) << lists.status();
    lists_ = std::make_unique<InvertedLists>(*std::move(lists));
  }

  Rows Find(int32_t k, int64_t probes) const {
    std::vector<uint32_t> documents(vectors_.n);
    std::iota(documents.begin(), documents.end(), 0u);
    Rows rows{std::vector<uint32_t>(documents.size() * k),
              std::vector<float>(documents.size() * k)};
    const auto search = MakeListNeighborSearch(vectors_, k, lists_.get(), GetParam());
    search->SetProbes(probes);
    EXPECT_TRUE(search->Find(documents, {rows.ids, rows.scores}, nullptr).ok());
    return rows;
  }

  // Returns the neighbors of one document among the documents of its nearest lists.
  std::vector<ScoredId> BruteForce(uint32_t document, size_t k, int64_t probes) const {
    std::vector<uint32_t> nearest(probes);
    NearestCentroids(lists_->centroids(), {vectors_.row(document), static_cast<size_t>(vectors_.d)},
                     vectors_.d, probes, nearest);
    std::vector<ScoredId> found;
    for (uint32_t list : nearest) {
      for (uint32_t other : lists_->documents(list)) {
        if (other == document) continue;
        found.push_back(
            {other, InnerProduct(vectors_.row(document), vectors_.row(other), vectors_.d)});
      }
    }
    std::ranges::sort(found, IsCloser);
    if (found.size() > k) found.resize(k);
    return found;
  }

  void ExpectBruteForce(const Rows& rows, size_t k, int64_t probes) const {
    for (uint32_t document = 0; document < vectors_.n; ++document) {
      const std::vector<ScoredId> expected = BruteForce(document, k, probes);
      for (size_t j = 0; j < k; ++j) {
        const bool exists = j < expected.size();
        ASSERT_EQ(rows.ids[document * k + j], exists ? expected[j].id : kNoNeighbor)
            << document << ", place " << j;
        ASSERT_EQ(rows.scores[document * k + j], exists ? expected[j].score : 0.0f);
      }
    }
  }

  std::vector<float> values_;
  DocumentVectors vectors_{};
  std::unique_ptr<InvertedLists> lists_;
};

TEST_P(ListSearchTest, EqualsComparingWithEveryDocumentOfTheListsProbed) {
  for (int32_t d : {3, 16, 61}) {
    Make(900, d, 30, 1 + d);
    for (int64_t probes : {1, 4, 30}) {
      for (int32_t k : {1, 7, 20}) ExpectBruteForce(Find(k, probes), k, probes);
    }
  }
}

TEST_P(ListSearchTest, EqualsExactSearchForTextsOfFewWords) {
  for (const int num_entries : {1, 3, 5}) {
    values_ = SparseVectors(1200, 256, num_entries, 21);
    vectors_ = {values_, 1200, 256};
    auto centroids = TrainCentroids(vectors_, 8, 1, nullptr);
    ASSERT_TRUE(centroids.ok()) << centroids.status();
    lists_ = std::make_unique<InvertedLists>(
        *InvertedLists::Assign(vectors_, *std::move(centroids), nullptr));
    const Rows found = Find(20, 8);
    std::vector<uint32_t> documents(vectors_.n);
    std::iota(documents.begin(), documents.end(), 0u);
    Rows exact{std::vector<uint32_t>(documents.size() * 20),
               std::vector<float>(documents.size() * 20)};
    ASSERT_TRUE(MakeExactNeighborSearch(vectors_, 20)
                    ->Find(documents, {exact.ids, exact.scores}, nullptr)
                    .ok());
    EXPECT_EQ(found.ids, exact.ids) << num_entries;
    EXPECT_EQ(found.scores, exact.scores) << num_entries;
  }
}

TEST_P(ListSearchTest, BreaksTiesAmongCopiesByLowestId) {
  Make(1200, 16, 12, 5, /*copies=*/0.6);
  for (int64_t probes : {1, 3, 12}) ExpectBruteForce(Find(10, probes), 10, probes);
}

TEST_P(ListSearchTest, EqualsExactSearchWithAllListsProbed) {
  Make(2000, 24, 20, 6, /*copies=*/0.3);
  const Rows found = Find(15, 20);
  std::vector<uint32_t> documents(vectors_.n);
  std::iota(documents.begin(), documents.end(), 0u);
  Rows exact{std::vector<uint32_t>(found.ids.size()), std::vector<float>(found.ids.size())};
  ASSERT_TRUE(MakeExactNeighborSearch(vectors_, 15)
                  ->Find(documents, {exact.ids, exact.scores}, nullptr)
                  .ok());
  EXPECT_EQ(found.ids, exact.ids);
  EXPECT_EQ(found.scores, exact.scores);
}

TEST_P(ListSearchTest, EqualsFaissForTheSameLists) {
  Make(4000, 32, 50, 7);
  constexpr int32_t kNeighbors = 10;
  faiss::IndexFlatIP quantizer(vectors_.d);
  quantizer.add(50, lists_->centroids().data());
  faiss::IndexIVFFlat index(&quantizer, vectors_.d, 50, faiss::METRIC_INNER_PRODUCT);
  index.is_trained = true;
  const std::vector<int64_t> list_of(lists_->list_of().begin(), lists_->list_of().end());
  index.add_core(vectors_.n, values_.data(), nullptr, list_of.data());
  SetFaissThreads(1);
  for (int64_t probes : {1, 5, 50}) {
    index.nprobe = probes;
    std::vector<int64_t> ids(vectors_.n * (kNeighbors + 1));
    std::vector<float> scores(ids.size());
    index.search(vectors_.n, values_.data(), kNeighbors + 1, scores.data(), ids.data());
    const Rows ours = Find(kNeighbors, probes);
    for (int64_t i = 0; i < vectors_.n; ++i) {
      std::set<int64_t> theirs(ids.begin() + i * (kNeighbors + 1),
                               ids.begin() + (i + 1) * (kNeighbors + 1));
      theirs.erase(i);
      for (int32_t j = 0; j < kNeighbors; ++j) {
        const uint32_t id = ours.ids[i * kNeighbors + j];
        EXPECT_TRUE(theirs.contains(id == kNoNeighbor ? -1 : int64_t{id})) << i << ", place " << j;
      }
    }
  }
}

TEST_P(ListSearchTest, GivesTheSameBytesForAnyNumberOfThreads) {
  Make(3 * kListSearchBlock - 5, 8, 200, 8, /*copies=*/0.1);
  const Rows expected = Find(5, 3);
  const std::vector<float> centroids = lists_->centroids();
  for (int threads : {2, 3}) {
    SetRetrievalThreads(threads);
    Make(vectors_.n, 8, 200, 8, 0.1);
    EXPECT_EQ(lists_->centroids(), centroids);
    const Rows found = Find(5, 3);
    EXPECT_EQ(found.ids, expected.ids);
    EXPECT_EQ(found.scores, expected.scores);
  }
}

TEST_P(ListSearchTest, PadsRowsOfSmallAndEmptyLists) {
  values_ = RandomVectors(9, 4, 9);
  vectors_ = {values_, 9, 4};
  // Three of five lists are empty.
  std::vector<float> centroids = RandomVectors(5, 4, 10);
  lists_ = std::make_unique<InvertedLists>(centroids, 5,
                                           std::vector<uint32_t>{1, 1, 1, 3, 1, 3, 3, 1, 1});
  for (int64_t probes : {1, 2, 5}) ExpectBruteForce(Find(20, probes), 20, probes);
}

TEST_P(ListSearchTest, WorksForTwoDocuments) {
  Make(2, 4, 1, 11);
  EXPECT_EQ(Find(3, 1).ids,
            (std::vector<uint32_t>{1, kNoNeighbor, kNoNeighbor, 0, kNoNeighbor, kNoNeighbor}));
}

TEST_P(ListSearchTest, PutsEveryZeroVectorIntoSomeList) {
  values_.assign(600 * 8, 0.0f);
  vectors_ = {values_, 600, 8};
  for (int64_t i = 0; i < 10; ++i) values_[i * 8 + i % 8] = 1;
  lists_ = std::make_unique<InvertedLists>(
      *InvertedLists::Assign(vectors_, RandomVectors(4, 8, 1), nullptr));
  for (int64_t probes : {1, 4}) ExpectBruteForce(Find(6, probes), 6, probes);
}

TEST_P(ListSearchTest, StopsWhenCancelled) {
  Make(20'000, 32, 100, 12);
  int asked = 0;
  const StopCheck stop = [&] {
    return ++asked < 2 ? absl::OkStatus() : absl::CancelledError("stop");
  };
  std::vector<uint32_t> documents(vectors_.n);
  std::iota(documents.begin(), documents.end(), 0u);
  Rows rows{std::vector<uint32_t>(vectors_.n * 20), std::vector<float>(vectors_.n * 20)};
  const auto search = MakeListNeighborSearch(vectors_, 20, lists_.get(), GetParam());
  search->SetProbes(100);
  EXPECT_TRUE(absl::IsCancelled(search->Find(documents, {rows.ids, rows.scores}, stop)));
  asked = 0;
  EXPECT_TRUE(absl::IsCancelled(TrainCentroids(vectors_, 2000, 0, stop).status()));
}

TEST_P(ListSearchTest, RefusesMoreListsThanDocuments) {
  values_ = RandomVectors(10, 4, 13);
  vectors_ = {values_, 10, 4};
  EXPECT_TRUE(absl::IsInvalidArgument(TrainCentroids(vectors_, 11, 0, nullptr).status()));
  EXPECT_TRUE(TrainCentroids(vectors_, 10, 0, nullptr).ok());
}

INSTANTIATE_TEST_SUITE_P(Arithmetic, ListSearchTest,
                         testing::Values(ListArithmetic::kFloats, ListArithmetic::kBytes));

}  // namespace list_search_test
}  // namespace braid
