#include "trainer/routing_totals.h"

#include <cmath>
#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace braid {
namespace routing_totals_test {

using testing::Each;
using testing::ElementsAre;

TEST(RoutingTotalsTest, SummarizesAHandComputedBatch) {
  RoutingTotals totals(4);
  AddDecisions(std::vector<float>{0.25f, 0.25f, 0.25f, 0.25f, 0.75f, 0.25f, 0.0f, 0.0f}, &totals);
  const v1::LayerRouting routing = Summarize(3, totals);
  EXPECT_EQ(routing.layer(), 3);
  const double second = -0.75 * std::log(0.75) - 0.25 * std::log(0.25);
  EXPECT_NEAR(routing.entropy(), (std::log(4) + second) / 2, 1e-12);
  EXPECT_THAT(routing.mean_weights(), ElementsAre(0.5, 0.25, 0.125, 0.125));
  const double mean_entropy = 0.5 * std::log(2) + 0.25 * std::log(4) + 2 * 0.125 * std::log(8);
  EXPECT_NEAR(routing.effective_experts(), std::exp(mean_entropy), 1e-9);
  // Only .75 exceeds 2/E = .5.
  EXPECT_THAT(ActiveCounts(totals), ElementsAre(1, 0, 0, 0));
}

TEST(RoutingTotalsTest, ExactlyTwoOverEIsNotActive) {
  RoutingTotals totals(4);
  AddDecisions(std::vector<float>{0.5f, 0.5f, 0.0f, 0.0f}, &totals);
  EXPECT_THAT(ActiveCounts(totals), Each(0));
}

TEST(RoutingTotalsTest, PartsAddUpToTheWhole) {
  std::mt19937 random(1);
  std::uniform_real_distribution<float> uniform;
  std::vector<float> weights(60 * 3);
  for (float& w : weights) w = uniform(random) / 3;
  RoutingTotals whole(3), first(3), second(3);
  AddDecisions(weights, &whole);
  AddDecisions(std::span(weights).first(21), &first);
  AddDecisions(std::span(weights).subspan(21), &second);
  for (size_t i = 0; i < whole.sums.size(); ++i) {
    EXPECT_NEAR(first.sums[i] + second.sums[i], whole.sums[i], 1e-9);
  }
}

TEST(RoutingTotalsTest, LeavesOutSegmentsOfPadding) {
  // Two sequences of three segments of 8 positions, two experts.
  const std::vector<float> weights = {1, 0, 1, 0, 1, 0, 0, 1, 0, 1, 0, 1};
  RoutingTotals totals(2);
  AddBatch(weights, std::vector<int64_t>{9, 0}, 8, &totals);
  EXPECT_EQ(totals.num_decisions(), 2);
  EXPECT_THAT(MeanWeights(totals), ElementsAre(1, 0));
}

TEST(RoutingTotalsTest, DecisionsOfOneTokenAreCountedByToken) {
  const std::vector<float> weights = {1, 0, 1, 0, 0, 1, 0, 1};
  RoutingTotals totals(2);
  AddBatch(weights, std::vector<int64_t>{3}, 1, &totals);
  EXPECT_EQ(totals.num_decisions(), 3);
}

TEST(RoutingTotalsTest, LoadsAreSharesOfTheChosenPairsWithoutPadding) {
  // Two sequences of two tokens, four experts, k 2; the last token is padding.
  const std::vector<float> weights(4 * 4, 0.25f);
  const std::vector<int32_t> chosen = {0, 1, 0, 2, 0, 1, 2, 3};
  RoutingTotals totals(4);
  AddBatch(weights, std::vector<int64_t>{2, 1}, 1, &totals, chosen);
  EXPECT_THAT(ActiveCounts(totals), ElementsAre(3, 2, 1, 0));
  v1::LayerRouting routing;
  SetLoads(totals, &routing);
  EXPECT_THAT(routing.load(), ElementsAre(3.0 / 6, 2.0 / 6, 1.0 / 6, 0));
  EXPECT_DOUBLE_EQ(routing.busiest_over_mean(), 2);
  EXPECT_EQ(routing.starved_experts(), 1);
  EXPECT_NEAR(routing.load_entropy(), std::log(2) / 2 + std::log(3) / 3 + std::log(6) / 6, 1e-12);
}

TEST(RoutingTotalsTest, WhatIsNotFiniteIsNeverActive) {
  RoutingTotals totals(2);
  AddDecisions(std::vector<float>{std::nanf(""), std::nanf("")}, &totals);
  const v1::LayerRouting routing = Summarize(0, totals);
  EXPECT_TRUE(std::isnan(routing.mean_weights(0)));
  EXPECT_EQ(routing.entropy(), 0);
  EXPECT_THAT(ActiveCounts(totals), Each(0));
}

TEST(RoutingTotalsTest, EqualDecisionsEqualAddingThemOneByOne) {
  const std::vector<float> weights = {0.625f, 0.25f, 0.125f, 0};
  RoutingTotals one_by_one(4);
  for (int i = 0; i < 5; ++i) AddDecisions(weights, &one_by_one);
  const RoutingTotals totals =
      EqualDecisions(std::vector<double>(weights.begin(), weights.end()), 5);
  EXPECT_THAT(totals.sums, testing::Pointwise(testing::DoubleNear(1e-12), one_by_one.sums));
}

TEST(RoutingTotalsTest, NothingAddedGivesZeros) {
  EXPECT_THAT(MeanWeights(RoutingTotals(2)), ElementsAre(0, 0));
  EXPECT_EQ(Summarize(0, RoutingTotals(2)).entropy(), 0);
}

}  // namespace routing_totals_test
}  // namespace braid
