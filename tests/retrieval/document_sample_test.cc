#include "retrieval/document_sample.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace braid {
namespace document_sample_test {

TEST(SampleDocumentsTest, TakesAllWhenTooFew) {
  EXPECT_EQ(SampleDocuments(3, 10, 1), (std::vector<uint32_t>{0, 1, 2}));
  EXPECT_TRUE(SampleDocuments(0, 10, 1).empty());
}

TEST(SampleDocumentsTest, IsAscendingDistinctAndSeeded) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    const std::vector<uint32_t> sample = SampleDocuments(100, 60, seed);
    EXPECT_EQ(sample.size(), 60u);
    EXPECT_TRUE(std::is_sorted(sample.begin(), sample.end()));
    EXPECT_EQ(std::adjacent_find(sample.begin(), sample.end()), sample.end());
    EXPECT_LT(sample.back(), 100u);
    EXPECT_EQ(sample, SampleDocuments(100, 60, seed));
    EXPECT_NE(sample, SampleDocuments(100, 60, seed + 1));
  }
}

TEST(SampleDocumentsTest, ChoosesEachDocumentEquallyOften) {
  std::vector<int> chosen(10, 0);
  constexpr int kRounds = 4000;
  for (uint64_t seed = 0; seed < kRounds; ++seed) {
    for (uint32_t document : SampleDocuments(10, 3, seed)) ++chosen[document];
  }
  // Standard deviation 29 around 1200.
  for (int count : chosen) EXPECT_NEAR(count, kRounds * 3 / 10, 150);
}

}  // namespace document_sample_test
}  // namespace braid
