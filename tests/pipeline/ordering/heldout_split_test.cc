#include "pipeline/ordering/heldout_split.h"

#include <gtest/gtest.h>
#include <xxhash.h>

#include <cmath>
#include <string>

namespace braid {
namespace heldout_split_test {

constexpr int kDocuments = 100000;

int CountHeldOut(uint64_t seed, double fraction) {
  int count = 0;
  for (int i = 0; i < kDocuments; ++i) {
    count += IsHeldOut("corpus.jsonl:" + std::to_string(i), seed, fraction);
  }
  return count;
}

TEST(IsHeldOutTest, HoldsOutTheFraction) {
  for (const uint64_t seed : {0, 1, 2}) {
    for (const double fraction : {0.001, 0.03, 0.5}) {
      const double deviation = std::sqrt(kDocuments * fraction * (1 - fraction));
      EXPECT_NEAR(CountHeldOut(seed, fraction), kDocuments * fraction, 4 * deviation);
    }
  }
}

TEST(IsHeldOutTest, TakesNoneAtZeroAndAllAtOne) {
  EXPECT_EQ(CountHeldOut(0, 0), 0);
  EXPECT_EQ(CountHeldOut(0, -1), 0);
  EXPECT_EQ(CountHeldOut(0, 1), kDocuments);
}

TEST(IsHeldOutTest, ALargerFractionContainsASmaller) {
  for (int i = 0; i < 1000; ++i) {
    const std::string id = std::to_string(i);
    EXPECT_TRUE(!IsHeldOut(id, 3, 0.1) || IsHeldOut(id, 3, 0.2)) << id;
  }
}

TEST(IsHeldOutTest, IsIndependentOfAPlainHashOfTheId) {
  int low = 0, both = 0;
  for (int i = 0; i < kDocuments; ++i) {
    const std::string id = std::to_string(i);
    if (XXH3_64bits_withSeed(id.data(), id.size(), 0) >> 63 != 0) continue;
    ++low;
    both += IsHeldOut(id, 0, 0.1);
  }
  EXPECT_NEAR(both, low * 0.1, 4 * std::sqrt(low * 0.09));
}

TEST(SourceDocumentTest, OnlyANumberAfterAHashMarksAPart) {
  EXPECT_EQ(SourceDocument("a/b.h#12", 100), "a/b.h");
  EXPECT_EQ(SourceDocument("a#1#2", 100), "a#1");
  EXPECT_EQ(SourceDocument("a#", 100), "a#");
  EXPECT_EQ(SourceDocument("c#sharp", 100), "c#sharp");
  EXPECT_EQ(SourceDocument("12", 100), "12");
  EXPECT_EQ(SourceDocument("", 100), "");
}

TEST(SourceDocumentTest, UncutCorporaHaveNoParts) { EXPECT_EQ(SourceDocument("a#12", 0), "a#12"); }

TEST(IsHeldOutTest, SeedsDrawIndependently) {
  int both = 0;
  for (int i = 0; i < kDocuments; ++i) {
    const std::string id = std::to_string(i);
    both += IsHeldOut(id, 1, 0.1) && IsHeldOut(id, 2, 0.1);
  }
  EXPECT_NEAR(both, kDocuments * 0.01, 4 * std::sqrt(kDocuments * 0.01));
}

}  // namespace heldout_split_test
}  // namespace braid
