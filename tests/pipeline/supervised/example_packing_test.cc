#include "pipeline/supervised/example_packing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <vector>

#include "base/splitmix.h"

namespace braid {
namespace example_packing_test {

using Sequences = std::vector<std::vector<uint32_t>>;

// Best fit decreasing in the obvious way: looks at every sequence for every example.
Sequences PackSlowly(const std::vector<int32_t>& lengths, int64_t capacity, uint64_t seed) {
  std::vector<uint32_t> left(lengths.size());
  std::iota(left.begin(), left.end(), 0u);
  Sequences sequences;
  std::vector<int64_t> rooms;
  while (!left.empty()) {
    // The longest, and of equals the one with the least random number.
    size_t next = 0;
    for (size_t i = 1; i < left.size(); ++i) {
      const int32_t a = lengths[left[i]], b = lengths[left[next]];
      const uint64_t ra = Mix64(seed, uint64_t{left[i]}), rb = Mix64(seed, uint64_t{left[next]});
      if (a > b || (a == b && ra < rb)) next = i;
    }
    const uint32_t example = left[next];
    left.erase(left.begin() + static_cast<std::ptrdiff_t>(next));
    size_t best = rooms.size();
    for (size_t s = 0; s < rooms.size(); ++s) {
      if (rooms[s] < lengths[example]) continue;
      if (best == rooms.size() || rooms[s] < rooms[best]) best = s;
    }
    if (best == rooms.size()) {
      rooms.push_back(capacity);
      sequences.emplace_back();
    }
    rooms[best] -= lengths[example];
    sequences[best].push_back(example);
  }
  return sequences;
}

std::vector<int32_t> DrawLengths(std::mt19937* random, size_t n, int32_t capacity) {
  std::vector<int32_t> lengths(n);
  for (int32_t& length : lengths) {
    length = 1 + static_cast<int32_t>((*random)() % static_cast<unsigned>(capacity));
  }
  return lengths;
}

TEST(PackBestFitTest, EqualsTheSlowVersionOnRandomLengths) {
  std::mt19937 random(3);
  for (uint64_t trial = 0; trial < 60; ++trial) {
    const auto capacity = static_cast<int32_t>(4 + random() % 60);
    const std::vector<int32_t> lengths = DrawLengths(&random, random() % 90, capacity);
    EXPECT_EQ(PackBestFit(lengths, capacity, trial), PackSlowly(lengths, capacity, trial)) << trial;
  }
}

TEST(PackBestFitTest, PlacesEveryExampleOnceWithinTheCapacity) {
  std::mt19937 random(4);
  const std::vector<int32_t> lengths = DrawLengths(&random, 5000, 257);
  std::vector<int> seen(lengths.size(), 0);
  for (const std::vector<uint32_t>& sequence : PackBestFit(lengths, 257, 1)) {
    int64_t sum = 0;
    for (const uint32_t example : sequence) {
      ++seen[example];
      sum += lengths[example];
    }
    EXPECT_LE(sum, 257);
  }
  EXPECT_EQ(std::ranges::count(seen, 1), std::ssize(seen));
}

TEST(PackBestFitTest, TheSeedChoosesAmongEqualLengths) {
  const std::vector<int32_t> lengths(100, 5);
  EXPECT_EQ(PackBestFit(lengths, 16, 1), PackBestFit(lengths, 16, 1));
  EXPECT_NE(PackBestFit(lengths, 16, 1), PackBestFit(lengths, 16, 2));
}

// Returns the share of positions that hold tokens for lengths that are log-normal around `median`.
double Filled(double median, double sigma, size_t n, int32_t capacity) {
  std::mt19937 random(5);
  std::lognormal_distribution<double> draw(std::log(median), sigma);
  std::vector<int32_t> lengths(n);
  for (int32_t& length : lengths) {
    length = std::clamp(static_cast<int32_t>(draw(random)), 4, capacity);
  }
  const double tokens = std::accumulate(lengths.begin(), lengths.end(), 0.0);
  const auto sequences = static_cast<double>(PackBestFit(lengths, capacity, 1).size());
  return tokens / (sequences * capacity);
}

TEST(PackBestFitTest, FillsSequencesWithTheLengthsOfUsualData) {
  EXPECT_GT(Filled(35, .5, 2000, 257), .95);    // SST-2
  EXPECT_GT(Filled(60, .4, 1537, 257), .95);    // MAWPS
  EXPECT_GT(Filled(110, .8, 10000, 513), .95);  // Alpaca
  EXPECT_GT(Filled(110, .8, 10000, 1025), .95);
}

TEST(PackSinglyTest, GivesEachExampleASequence) {
  EXPECT_THAT(PackSingly(3), testing::ElementsAre(testing::ElementsAre(0), testing::ElementsAre(1),
                                                  testing::ElementsAre(2)));
}

}  // namespace example_packing_test
}  // namespace braid
