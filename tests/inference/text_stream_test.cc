#include "inference/text_stream.h"

#include <string>

#include "gtest/gtest.h"

namespace braid {
namespace text_stream_test {

TEST(TextStreamTest, HoldsBackACodePointCutShort) {
  EXPECT_EQ(StableLength("abc"), 3u);
  EXPECT_EQ(StableLength("ab\xE2\x82"), 2u);
  EXPECT_EQ(StableLength("ab\xE2\x82\xAC"), 5u);
  EXPECT_EQ(StableLength("\xF0\x9F\x98"), 0u);
  EXPECT_EQ(StableLength("\xF0\x9F\x98\x80"), 4u);
  EXPECT_EQ(StableLength(""), 0u);
}

TEST(TextStreamTest, HoldsBackReplacementCharacters) {
  EXPECT_EQ(StableLength("ab\xEF\xBF\xBD\xEF\xBF\xBD"), 2u);
  EXPECT_EQ(StableLength("ab\xEF\xBF\xBDz"), 6u);
}

TEST(TextStreamTest, EmitsEachByteOnce) {
  // The output of a decoder while a euro sign arrives byte by byte.
  TextStream stream(2);
  std::string all;
  for (const char* text : {"> a", "> a\xEF\xBF\xBD", "> a\xEF\xBF\xBD\xEF\xBF\xBD",
                           "> a\xE2\x82\xAC", "> a\xE2\x82\xACz"}) {
    all += stream.Next(text);
  }
  EXPECT_EQ(all, "a\xE2\x82\xACz");
  EXPECT_EQ(stream.Finish("> a\xE2\x82\xACz\xEF\xBF\xBD"), "\xEF\xBF\xBD");
}

}  // namespace text_stream_test
}  // namespace braid
