#include "pipeline/ordering/heldout_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <utility>

#include "absl/status/status.h"
#include "pipeline/ordering/similarity_order.h"

namespace braid {
namespace heldout_order_test {

using ::testing::ElementsAre;

// Unit vectors at these angles, one per document.
std::vector<float> VectorsAt(const std::vector<double>& angles) {
  std::vector<float> vectors;
  for (const double angle : angles) {
    vectors.push_back(static_cast<float>(std::cos(angle)));
    vectors.push_back(static_cast<float>(std::sin(angle)));
  }
  return vectors;
}

// Searches all pairs for the k nearest of `documents`, which are ascending, and walks their graph.
std::vector<uint32_t> SlowOrder(const std::vector<float>& vectors,
                                const std::vector<uint32_t>& documents, int32_t k) {
  const auto cosine = [&](uint32_t a, uint32_t b) {
    return vectors[2 * a] * vectors[2 * b] + vectors[2 * a + 1] * vectors[2 * b + 1];
  };
  std::vector<uint32_t> ids;
  std::vector<float> scores;
  const auto m = static_cast<uint32_t>(documents.size());
  for (uint32_t i = 0; i < m; ++i) {
    std::vector<std::pair<float, uint32_t>> others;
    for (uint32_t j = 0; j < m; ++j) {
      if (j != i) others.emplace_back(-cosine(documents[i], documents[j]), j);
    }
    std::ranges::sort(others);
    for (size_t n = 0; n < static_cast<size_t>(k); ++n) {
      ids.push_back(others[n].second);
      scores.push_back(-others[n].first);
    }
  }
  std::vector<uint32_t> order;
  for (const uint32_t i : SimilarityOrder({k, ids, scores}, m).order) {
    order.push_back(documents[i]);
  }
  return order;
}

TEST(OrderAmongThemselvesTest, WalksTheGraphOfTheseDocumentsAlone) {
  std::mt19937 random(5);
  std::vector<double> angles(60);
  for (double& angle : angles) angle = std::uniform_real_distribution<double>(0, 6)(random);
  const std::vector<float> values = VectorsAt(angles);
  const DocumentVectors vectors{values, 60, 2};
  std::vector<uint32_t> every_third;
  for (uint32_t i = 0; i < 60; i += 3) every_third.push_back(i);
  const std::vector<uint32_t> expected = SlowOrder(values, every_third, 3);
  EXPECT_EQ(*OrderAmongThemselves(vectors, every_third, 3, nullptr), expected);
  EXPECT_NE(expected, every_third);
  std::ranges::shuffle(every_third, random);
  EXPECT_EQ(*OrderAmongThemselves(vectors, every_third, 3, nullptr), expected);
}

TEST(OrderAmongThemselvesTest, AcceptsFewDocuments) {
  const std::vector<float> values = VectorsAt({0, .1, .2, .3});
  const DocumentVectors vectors{values, 4, 2};
  EXPECT_THAT(*OrderAmongThemselves(vectors, {}, 8, nullptr), ElementsAre());
  EXPECT_THAT(*OrderAmongThemselves(vectors, {2}, 8, nullptr), ElementsAre(2));
  EXPECT_THAT(*OrderAmongThemselves(vectors, {3, 1}, 8, nullptr), ElementsAre(1, 3));
}

TEST(OrderAmongThemselvesTest, ReturnsTheErrorOfTheCheck) {
  const std::vector<float> values = VectorsAt({0, .1, .2, .3});
  const auto order = OrderAmongThemselves({values, 4, 2}, {0, 1, 2}, 2,
                                          [] { return absl::CancelledError("stopped"); });
  EXPECT_EQ(order.status(), absl::CancelledError("stopped"));
}

}  // namespace heldout_order_test
}  // namespace braid
