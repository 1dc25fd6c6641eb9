// The choice of experts by their scores, and the order in which their pairs are processed.
#include "model/kernels/expert_selection.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <numeric>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "model/kernels/expert_slabs.h"

namespace braid {
namespace expert_selection_test {

using Floats = std::vector<float>;

TEST(ExpertSelectionTest, EachSelectionTakesItsRanksAndTiesGoToTheLowestIndex) {
  const Floats scores = {3, 1, 3, 2, 0,   // ranks 0 2 3 1 4
                         5, 5, 5, 5, 5};  // all tie
  const auto select = [&](int64_t k, ExpertSelection selection) {
    std::vector<int32_t> chosen(2 * k);
    EXPECT_EQ(SelectExperts(scores.data(), 2, 5, k, selection, chosen.data()), -1);
    return chosen;
  };
  using Choice = std::vector<int32_t>;
  EXPECT_EQ(select(2, ExpertSelection::kTop), (Choice{0, 2, 0, 1}));
  EXPECT_EQ(select(2, ExpertSelection::kBottom), (Choice{1, 4, 0, 1}));
  EXPECT_EQ(select(2, ExpertSelection::kNotTop), (Choice{1, 3, 2, 3}));
  EXPECT_EQ(select(3, ExpertSelection::kNotTop), (Choice{1, 3, 4, 2, 3, 4}));
  EXPECT_EQ(select(5, ExpertSelection::kNotTop), (Choice{0, 1, 2, 3, 4, 0, 1, 2, 3, 4}));
}

TEST(ExpertSelectionTest, EqualsAFullSortOnRandomScoresWithTies) {
  std::mt19937 random(5);
  for (int trial = 0; trial < 200; ++trial) {
    const int64_t experts = 1 + random() % 20, k = 1 + random() % experts;
    Floats scores(experts);
    for (float& score : scores) score = static_cast<float>(random() % 4);
    std::vector<int32_t> order(experts), chosen(k);
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(order, std::greater<>(), [&](int32_t e) { return scores[e]; });
    std::sort(order.begin(), order.begin() + k);
    SelectExperts(scores.data(), 1, experts, k, ExpertSelection::kTop, chosen.data());
    EXPECT_EQ(chosen, std::vector<int32_t>(order.begin(), order.begin() + k));
  }
}

TEST(ExpertSelectionTest, ReportsTheFirstTokenWithAScoreThatIsNotANumber) {
  Floats scores(1000 * 3, 1.0f);
  std::vector<int32_t> chosen(1000);
  const auto run = [&] {
    return SelectExperts(scores.data(), 1000, 3, 1, ExpertSelection::kTop, chosen.data());
  };
  EXPECT_EQ(run(), -1);
  scores[900 * 3] = std::nanf("");
  scores[700 * 3 + 2] = std::nanf("");
  EXPECT_EQ(run(), 700);
}

TEST(ExpertSlabsTest, AnExpertIsCutEvenlyAtWholePanels) {
  SortedPairs sorted;
  sorted.begin = {0, 1280, 2561, 2561, 2571};
  const auto counts = [&](int64_t expert) {
    std::vector<int64_t> result;
    for (const ExpertSlab& slab : SlabsOf(sorted, expert, 1280)) result.push_back(slab.count);
    return result;
  };
  EXPECT_EQ(counts(0), (std::vector<int64_t>{1280}));
  EXPECT_EQ(counts(1), (std::vector<int64_t>{704, 577}));
  EXPECT_EQ(counts(2), std::vector<int64_t>());
  EXPECT_EQ(counts(3), (std::vector<int64_t>{10}));
}

TEST(ExpertSlabsTest, PhasesAreEvenAndTheirLargestExpertsComeFirst) {
  SortedPairs sorted;
  sorted.begin = {0, 10, 30, 60, 60, 100, 120};  // 10 20 30 0 40 20 pairs
  std::vector<int64_t> order;
  const std::vector<ExpertPhase> phases = CutIntoPhases(sorted, 60, &order);
  ASSERT_EQ(phases.size(), 2u);
  EXPECT_EQ(phases[0].num_pairs(), 60);
  EXPECT_EQ(phases[1].first_pair, 60);
  EXPECT_EQ(phases[1].end_pair, 120);
  EXPECT_EQ(order, (std::vector<int64_t>{2, 1, 0, 3, 4, 5}));
  sorted.begin = {0, 0, 0};
  EXPECT_EQ(CutIntoPhases(sorted, 60, &order).size(), 1u);
}

}  // namespace expert_selection_test
}  // namespace braid
