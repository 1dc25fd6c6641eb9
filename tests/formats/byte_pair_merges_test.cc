#include "formats/byte_pair_merges.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace braid {
namespace byte_pair_merges_test {

// Merges the first added pair at its leftmost place, again and again.
std::vector<int32_t> SlowMerges(const std::vector<std::array<int32_t, 3>>& merges,
                                std::vector<int32_t> ids) {
  for (size_t m = 0; m < merges.size();) {
    size_t i = 0;
    while (i + 1 < ids.size() && (ids[i] != merges[m][0] || ids[i + 1] != merges[m][1])) ++i;
    if (i + 1 >= ids.size()) {
      ++m;
      continue;
    }
    ids[i] = merges[m][2];
    ids.erase(ids.begin() + static_cast<int64_t>(i) + 1);
    m = 0;
  }
  return ids;
}

TEST(BytePairMergesTest, EqualsMergingOnePairAtATime) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 200; ++round) {
    std::array<int32_t, 256> bytes{};
    for (int32_t b = 0; b < 256; ++b) bytes[static_cast<size_t>(b)] = b;
    BytePairMerges merges(bytes);
    std::vector<std::array<int32_t, 3>> list;
    std::vector<int32_t> symbols = {'a', 'b', 'c'};
    for (int32_t id = 256; id < 276; ++id) {
      const int32_t left = symbols[random() % symbols.size()];
      const int32_t right = symbols[random() % symbols.size()];
      const bool known = std::ranges::any_of(
          list, [&](const auto& merge) { return merge[0] == left && merge[1] == right; });
      if (known) continue;
      merges.Add(left, right, id);
      list.push_back({left, right, id});
      symbols.push_back(id);
    }
    std::string text;
    std::vector<int32_t> ids;
    for (auto n = random() % 120; n > 0; --n) {
      text.push_back(static_cast<char>('a' + random() % 3));
      ids.push_back(text.back());
    }
    std::vector<int32_t> encoded;
    merges.Encode(text, &encoded);
    ASSERT_EQ(encoded, SlowMerges(list, ids)) << text;
  }
}

TEST(BytePairMergesTest, ARepeatedPairHasItsLastPlace) {
  std::array<int32_t, 256> bytes{};
  for (int32_t b = 0; b < 256; ++b) bytes[static_cast<size_t>(b)] = b;
  BytePairMerges merges(bytes);
  merges.Add('a', 'b', 256);
  merges.Add('b', 'c', 257);
  std::vector<int32_t> encoded;
  merges.Encode("abc", &encoded);
  EXPECT_EQ(encoded, (std::vector<int32_t>{256, 'c'}));
  merges.Add('a', 'b', 256);
  encoded.clear();
  merges.Encode("abc", &encoded);
  EXPECT_EQ(encoded, (std::vector<int32_t>{'a', 257}));
}

}  // namespace byte_pair_merges_test
}  // namespace braid
