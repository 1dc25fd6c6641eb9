#include "base/nearest_word.h"

#include <gtest/gtest.h>

namespace braid {
namespace nearest_word_test {

TEST(NearestWordTest, FindsTheClosestAndTheFirstOfEquals) {
  EXPECT_EQ(NearestWord("sead", {"model", "seed"}), "seed");
  EXPECT_EQ(NearestWord("txt", {"text", "tx"}), "text");
  EXPECT_EQ(NearestWord("a", {"b"}), "b");
}

TEST(NearestWordTest, SuggestsNothingForDissimilarWords) {
  EXPECT_EQ(NearestWord("zzzzzz", {"model", "seed"}), "");
  EXPECT_EQ(NearestWord("seed", {}), "");
}

}  // namespace nearest_word_test
}  // namespace braid
