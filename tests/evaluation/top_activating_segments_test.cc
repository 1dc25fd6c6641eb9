#include "evaluation/top_activating_segments.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <tuple>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace braid {
namespace top_activating_segments_test {

struct Decision {
  int32_t domain;
  int64_t window;
  int32_t segment;
  std::vector<float> weights;
};

// Windows of 4 segments with coarse weights, so that many are equal.
std::vector<Decision> RandomDecisions(int experts, std::mt19937* random) {
  std::vector<Decision> decisions;
  for (int32_t domain = 0; domain < 3; ++domain) {
    for (int64_t window = 0; window < 5; ++window) {
      for (int32_t segment = 0; segment < 4; ++segment) {
        Decision decision{domain, window, segment, {}};
        for (int e = 0; e < experts; ++e) {
          decision.weights.push_back(static_cast<float>((*random)() % 8) / 8);
        }
        decisions.push_back(decision);
      }
    }
  }
  return decisions;
}

using Key = std::tuple<double, int32_t, int64_t, int32_t>;  // -weight first

// Takes the best of each window and sorts all of them.
std::vector<Key> SlowBest(const std::vector<Decision>& decisions, int expert, size_t count) {
  std::map<std::pair<int32_t, int64_t>, Key> by_window;
  for (const Decision& d : decisions) {
    const Key key(-d.weights[expert], d.domain, d.window, d.segment);
    const auto [place, added] = by_window.try_emplace({d.domain, d.window}, key);
    if (!added) place->second = std::min(place->second, key);
  }
  std::vector<Key> keys;
  for (const auto& [window, key] : by_window) keys.push_back(key);
  std::sort(keys.begin(), keys.end());
  keys.resize(std::min(keys.size(), count));
  return keys;
}

std::vector<Key> BestOf(const TopActivatingSegments& best, int expert) {
  std::vector<Key> keys;
  for (const TopActivatingSegment& s : best.Of(expert)) {
    keys.emplace_back(-s.weight, s.domain, s.window, s.segment);
  }
  return keys;
}

TEST(TopActivatingSegmentsTest, KeepsTheBestWindowsOfEachExpertInAnyOrder) {
  std::mt19937 random(11);
  for (const int count : {1, 3, 20}) {
    for (int round = 0; round < 20; ++round) {
      std::vector<Decision> decisions = RandomDecisions(4, &random);
      std::shuffle(decisions.begin(), decisions.end(), random);
      TopActivatingSegments best(4, count);
      for (const Decision& d : decisions) best.Offer(d.domain, d.window, d.segment, d.weights);
      for (int e = 0; e < 4; ++e) {
        EXPECT_EQ(BestOf(best, e), SlowBest(decisions, e, static_cast<size_t>(count)));
      }
    }
  }
}

TEST(TopActivatingSegmentsTest, NanWeightsAreNeverSelected) {
  TopActivatingSegments best(2, 3);
  best.Offer(0, 0, 0, std::vector<float>{NAN, 0.5f});
  EXPECT_TRUE(best.Of(0).empty());
  EXPECT_EQ(best.Of(1).size(), 1u);
}

}  // namespace top_activating_segments_test
}  // namespace braid
