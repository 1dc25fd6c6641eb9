#include "base/utf8.h"

#include <gtest/gtest.h>

#include <string>

namespace braid {
namespace utf8_test {

// Decides validity character by character, as an oracle for the vectorized function.
bool IsValidByCharacters(std::string_view text) {
  while (!text.empty()) {
    const size_t length = ValidCharacterLength(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

TEST(Utf8Test, AcceptsCharactersOfEveryLength) {
  for (const std::string text :
       {"", "a", "\x7F", "\xC2\x80", "\xDF\xBF", "\xE0\xA0\x80", "\xED\x9F\xBF", "\xEE\x80\x80",
        "\xEF\xBF\xBF", "\xF0\x90\x80\x80", "\xF4\x8F\xBF\xBF"}) {
    EXPECT_TRUE(IsValidUtf8(text)) << testing::PrintToString(text);
    EXPECT_TRUE(IsValidByCharacters(text)) << testing::PrintToString(text);
  }
  EXPECT_TRUE(IsValidUtf8(std::string_view("a\0b", 3)));
}

TEST(Utf8Test, RejectsOverlongFormsSurrogatesAndTruncation) {
  for (const std::string text :
       {"\x80", "\xC0\x80", "\xC1\xBF", "\xE0\x9F\xBF", "\xED\xA0\x80", "\xF0\x8F\xBF\xBF",
        "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xFF", "\xC3", "\xE2\x82", "\xF0\x9F\x98",
        "\xC3"
        "a"}) {
    EXPECT_FALSE(IsValidUtf8(text)) << testing::PrintToString(text);
    EXPECT_EQ(ValidCharacterLength(text), 0u) << testing::PrintToString(text);
  }
}

TEST(Utf8Test, ValidatesLikeItsOracleForAllPairsOfBytesWithinText) {
  for (int a = 0; a < 256; ++a) {
    for (int b = 0; b < 256; ++b) {
      for (const char* rest : {"", "\x80", "\x80\x80"}) {
        const std::string text =
            std::string{static_cast<char>(a), static_cast<char>(b)} + rest + "z";
        EXPECT_EQ(IsValidUtf8(text), IsValidByCharacters(text)) << testing::PrintToString(text);
      }
    }
  }
}

TEST(Utf8Test, ReplacesOnlyBytesOutsideOfCharacters) {
  EXPECT_EQ(ReplaceInvalidUtf8("caf\xC3\xA9"), "caf\xC3\xA9");
  EXPECT_EQ(ReplaceInvalidUtf8("caf\xE9.txt"), "caf\xEF\xBF\xBD.txt");
  EXPECT_EQ(ReplaceInvalidUtf8("\xE2\x82"), "\xEF\xBF\xBD\xEF\xBF\xBD");
}

TEST(Utf8Test, CountsAndLocatesCharacters) {
  const std::string text = "a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80z";  // 1, 2, 3, 4 and 1 bytes
  EXPECT_EQ(CountCharacters(text), 5);
  EXPECT_EQ(CountCharacters(""), 0);
  const size_t offsets[] = {0, 1, 3, 6, 10, 11, 11};
  for (int64_t i = 0; i < 7; ++i) EXPECT_EQ(CharacterOffset(text, i), offsets[i]) << i;
}

TEST(Utf8Test, EastAsianCharactersTakeTwoColumns) {
  EXPECT_EQ(CharacterColumns("ab"), 1);
  EXPECT_EQ(CharacterColumns("\xC3\xA9z"), 1);
  EXPECT_EQ(CharacterColumns("\xE6\x97\xA5\xE6\x9C\xAC"), 2);
  EXPECT_EQ(CharacterColumns("\xF0\x9F\x98\x80"), 2);
  EXPECT_EQ(CharacterColumns("\xCC\x81"), 0) << "a combining accent";
  EXPECT_EQ(CharacterColumns("\xE6\x97"), 1) << "half a character";
}

TEST(Utf8Test, PrefixesEndBetweenCharacters) {
  const std::string text =
      "a\xE2\x82\xAC"
      "b";
  const size_t expected[] = {0, 1, 1, 1, 4, 5, 5};
  for (size_t bytes = 0; bytes < 7; ++bytes) {
    EXPECT_EQ(Utf8PrefixLength(text, bytes), expected[bytes]) << bytes;
  }
  EXPECT_EQ(Utf8PrefixLength("\x80\x80\x80", 2), 0u);
}

TEST(Utf8Test, LeadBytesAnnounceTheLength) {
  EXPECT_EQ(EncodedLength('a'), 1u);
  EXPECT_EQ(EncodedLength('\xC3'), 2u);
  EXPECT_EQ(EncodedLength('\xE2'), 3u);
  EXPECT_EQ(EncodedLength('\xF0'), 4u);
}

}  // namespace utf8_test
}  // namespace braid
