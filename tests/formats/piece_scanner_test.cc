#include "formats/piece_scanner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unicode/regex.h>
#include <unicode/utext.h>

#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_replace.h"
#include "formats/tokenizer.h"
#include "tests/formats/random_text.h"

namespace braid {
namespace piece_scanner_test {

constexpr char kContractions[] = R"((?i:'s|'t|'re|'ve|'m|'ll|'d))";
constexpr char kGpt2[] =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

std::string Llama3(const std::string& digits) {
  return std::string(kContractions) + R"(|[^\r\n\p{L}\p{N}]?\p{L}+|)" + digits +
         R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
}

std::string Gpt4o() {
  const std::string upper = R"([\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}])";
  const std::string lower = R"([\p{Ll}\p{Lm}\p{Lo}\p{M}])";
  const std::string prefix = R"([^\r\n\p{L}\p{N}]?)";
  return prefix + upper + "*" + lower + "+" + kContractions + "?|" + prefix + upper + "+" + lower +
         "*" + kContractions +
         R"(?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
}

// DeepSeek's third expression; its file has the line ends themselves.
constexpr char kDeepSeek[] = R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^)"
                             "\r\n"
                             R"(\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[)"
                             "\r\n"
                             R"(]*|\s*[)"
                             "\r\n"
                             R"(]+|\s+(?!\S)|\s+)";

// The matches of an expression and the texts between them, by ICU.
class IcuSplitter {
 public:
  explicit IcuSplitter(const std::string& regex)
      : matcher_(icu::UnicodeString::fromUTF8(absl::StrReplaceAll(
                     regex, {{R"(\s)", R"(\p{White_Space})"}, {R"(\S)", R"(\P{White_Space})"}})),
                 0, error_) {}

  std::vector<std::string> Split(const std::string& text) {
    UText* const input =
        utext_openUTF8(nullptr, text.data(), static_cast<int64_t>(text.size()), &error_);
    matcher_.reset(input);
    std::vector<std::string> pieces;
    size_t done = 0;
    while (matcher_.find(error_)) {
      const auto begin = static_cast<size_t>(matcher_.start64(error_));
      if (begin > done) pieces.push_back(text.substr(done, begin - done));
      done = static_cast<size_t>(matcher_.end64(error_));
      pieces.push_back(text.substr(begin, done - begin));
    }
    if (done < text.size()) pieces.push_back(text.substr(done));
    EXPECT_TRUE(U_SUCCESS(error_)) << u_errorName(error_);
    utext_close(input);
    return pieces;
  }

 private:
  UErrorCode error_ = U_ZERO_ERROR;
  icu::RegexMatcher matcher_;
};

std::vector<std::string> Pieces(const PieceScanner& scanner, std::string_view text) {
  std::vector<std::string> pieces;
  scanner.Split(text, [&](std::string_view piece) { pieces.emplace_back(piece); });
  return pieces;
}

TEST(PieceScannerTest, EqualsTheExpressionOfEachFamily) {
  const std::string gpt4o = Gpt4o();
  const std::string tekken = absl::StrReplaceAll(
      gpt4o, {{std::string(kContractions) + "?", ""}, {R"(\p{N}{1,3})", R"(\p{N})"}});
  for (const std::string& regex :
       {std::string(kGpt2), Llama3(R"(\p{N}{1,3})"), Llama3(R"(\p{N})"), gpt4o, tekken,
        std::string(kDeepSeek), std::string(R"(\p{N}{1,3})"),
        std::string("[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+")}) {
    PieceScanner scanner;
    ASSERT_TRUE(scanner.AddExpression(regex).ok());
    EXPECT_FALSE(scanner.uses_icu()) << regex;
    IcuSplitter icu(regex);
    std::mt19937_64 random(7);
    for (int i = 0; i < 3000; ++i) {
      const std::string text = RandomPieces(random);
      ASSERT_EQ(Pieces(scanner, text), icu.Split(text)) << regex << "\n" << text;
    }
  }
}

TEST(PieceScannerTest, EqualsTheThreeExpressionsOfDeepSeek) {
  const std::vector<std::string> expressions = {
      R"(\p{N}{1,3})", "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+", std::string(kDeepSeek)};
  PieceScanner scanner;
  std::vector<std::unique_ptr<IcuSplitter>> splitters;
  for (const std::string& regex : expressions) {
    ASSERT_TRUE(scanner.AddExpression(regex).ok());
    splitters.push_back(std::make_unique<IcuSplitter>(regex));
  }
  std::mt19937_64 random(8);
  for (int i = 0; i < 20000; ++i) {
    const std::string text = RandomPieces(random);
    std::vector<std::string> expected = {text};
    for (const auto& splitter : splitters) {
      std::vector<std::string> parts;
      for (const std::string& part : expected) {
        for (std::string& piece : splitter->Split(part)) parts.push_back(std::move(piece));
      }
      expected = std::move(parts);
    }
    ASSERT_EQ(Pieces(scanner, text), expected) << text;
  }
}

TEST(PieceScannerTest, AppliesCutsOneAfterTheOther) {
  PieceScanner scanner;
  scanner.AddDigits(true);
  ASSERT_TRUE(scanner.AddExpression(kGpt2).ok());
  EXPECT_EQ(Pieces(scanner, "in 2024!"),
            (std::vector<std::string>{"in", " ", "2", "0", "2", "4", "!"}));
  PieceScanner other;
  ASSERT_TRUE(other.AddExpression("[,;]+").ok());  // by ICU, which leaves gaps
  EXPECT_EQ(Pieces(other, "a,;b"), (std::vector<std::string>{"a", ",;", "b"}));
  EXPECT_EQ(other.AddExpression(R"(\w+)").code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(other.AddExpression("(").code(), absl::StatusCode::kUnimplemented);
}

// The pieces are those of tokenizers 0.23.
TEST(PieceScannerTest, OnlyLineFeedsEndLines) {
  const std::tuple<std::string, std::string, std::vector<std::string>> cases[] = {
      {R"(\s+$)", "a  \n  b  ", {"a", "  ", "\n  b", "  "}},
      {"^b", "a\nb", {"a\n", "b"}},
      {"x$", "x\r\nx\u2028x\n", {"x\r\nx\u2028", "x", "\n"}},
      {".+", "a\rb\u2028c\nd", {"a\rb\u2028c", "\n", "d"}}};
  for (const auto& [regex, text, pieces] : cases) {
    PieceScanner scanner;
    ASSERT_TRUE(scanner.AddExpression(regex).ok()) << regex;
    EXPECT_EQ(Pieces(scanner, text), pieces) << regex;
  }
}

TEST(PieceScannerTest, RefusesWhatHasAnotherMeaningInIcu) {
  for (const char* regex : {R"(\h+)", R"(\v)", "[[:punct:]]", "[[:xdigit:]]+", "(?m:a.b)",
                            "(?im)a.b", R"(\p{N}{1,3}+)", "a{2}?", R"(\w+)", R"(x\b)"}) {
    PieceScanner scanner;
    EXPECT_EQ(scanner.AddExpression(regex).code(), absl::StatusCode::kUnimplemented) << regex;
  }
  for (const char* regex : {"[:;]+", R"(\p{L}+)", "(?i:m)", "a{1,2}", "a{1,2}?", "[a-h]+"}) {
    PieceScanner scanner;
    EXPECT_TRUE(scanner.AddExpression(regex).ok()) << regex;
  }
}

// One expression needs stack for each letter, the other time that doubles with each.
TEST(PieceScannerTest, MatchesBeyondTheLimitsThrowAnErrorWithTheExpression) {
  for (const auto& [regex, text] : {std::pair("(?:[a-y]|z)+", std::string(4 << 20, 'a')),
                                    std::pair("(?:a|aa)+!", std::string(200, 'a'))}) {
    PieceScanner scanner;
    ASSERT_TRUE(scanner.AddExpression(regex).ok());
    std::string message;
    try {
      Pieces(scanner, text);
    } catch (const TokenizationError& error) {
      message = error.what();
    }
    EXPECT_THAT(message, testing::HasSubstr(regex));
    EXPECT_THAT(message, testing::HasSubstr("U_REGEX_"));
  }
}

TEST(WholeTextExpressionsTest, AreThoseThatLeaveNoTextBetweenMatches) {
  EXPECT_TRUE(PieceScanner::MatchesAllText(
      R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)"));
  for (const char* some : {R"(\p{N}{1,3})", R"(\p{L}+)", R"([0-9])"}) {
    EXPECT_FALSE(PieceScanner::MatchesAllText(some)) << some;
  }
}

}  // namespace piece_scanner_test
}  // namespace braid
