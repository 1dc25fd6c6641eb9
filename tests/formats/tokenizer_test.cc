#include "formats/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <random>
#include <thread>

#include "absl/strings/str_format.h"
#include "base/atomic_file.h"
#include "base/utf8.h"
#include "formats/word_boundaries.h"
#include "tests/base/crafted_files.h"
#include "tests/formats/random_text.h"

namespace braid {
namespace tokenizer_test {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

std::vector<std::string> Sample() {
  std::vector<std::string> texts;
  for (int i = 0; i < 20; ++i) texts.push_back(RandomLines(i, 60));
  return texts;
}

std::filesystem::path FreshPath(const std::string& name) {
  static const CraftedFiles files;
  static int count = 0;
  return files.directory() / (std::to_string(count++) + "-" + name);
}

const Tokenizer& TrainedTokenizer() {
  static const Tokenizer* tokenizer = [] {
    const auto path = FreshPath("tokenizer.model");
    const absl::Status status = TrainTokenizer(Sample(), {.vocab_size = 600}, path);
    if (!status.ok()) ADD_FAILURE() << status;
    auto loaded = Tokenizer::Load(path);
    if (!loaded.ok()) ADD_FAILURE() << loaded.status();
    return loaded->release();
  }();
  return *tokenizer;
}

std::string WireField(int number, const std::string& bytes) {
  return std::string{static_cast<char>(number << 3 | 2), static_cast<char>(bytes.size())} + bytes;
}

// A model as Gemma's: no space is put before texts, and pieces join newlines.
TEST(TokenizerTest, TextAfterASpaceSymbolKeepsItsNewlines) {
  std::string model;
  const auto add = [&](const std::string& text, char type) {
    model += WireField(1, WireField(1, text) + std::string("\x15\0\0\x80\x3f\x18", 6) + type);
  };
  add("<unk>", 2), add("<s>", 3), add("</s>", 3);
  for (int byte = 0; byte < 256; ++byte) add(absl::StrFormat("<0x%02X>", byte), 6);
  for (const char* text : {"\n", "\n\n", "\n\n\n"}) add(text, 4);
  add("a", 1), add(std::string(kSpaceSymbol), 1);
  model += WireField(2, std::string("\x18\x02\x98\x02\x01", 5));      // BPE, byte_fallback
  model += WireField(3, std::string("\x18\x00\x20\x00\x28\x01", 6));  // neither adds nor removes
  const auto tokenizer = Tokenizer::Parse(model, "gemma.model");
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  const std::string symbol(kSpaceSymbol);
  for (const char* text : {"\na", "\n\na", "a\n\n\na", " a", ""}) {
    std::vector<int32_t> expected = {3 + 0xE2, 3 + 0x96, 3 + 0x81};
    const std::vector<int32_t> rest = (*tokenizer)->Encode(text);
    expected.insert(expected.end(), rest.begin(), rest.end());
    EXPECT_EQ((*tokenizer)->Encode(symbol + text), expected) << text;
    EXPECT_EQ((*tokenizer)->Decode(expected), symbol + text);
  }
}

TEST(TokenizerTest, HasLlamasSpecialAndBytePieces) {
  const Tokenizer& tokenizer = TrainedTokenizer();
  EXPECT_EQ(tokenizer.vocab_size(), 600);
  EXPECT_EQ(tokenizer.bos_id(), 1);
  EXPECT_EQ(tokenizer.eos_id(), 2);
  EXPECT_EQ(tokenizer.Piece(0), "<unk>");
  EXPECT_EQ(tokenizer.Piece(3), "<0x00>");
  EXPECT_EQ(tokenizer.Piece(258), "<0xFF>");
}

TEST(TokenizerTest, FindsEveryPieceByItsText) {
  const Tokenizer& tokenizer = TrainedTokenizer();
  for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
    EXPECT_EQ(tokenizer.FindPiece(tokenizer.Piece(id)), id);
  }
  EXPECT_EQ(tokenizer.FindPiece("<|im_end|>"), std::nullopt);
  EXPECT_EQ(tokenizer.FindPiece(""), std::nullopt);
}

TEST(TokenizerTest, RoundTripsAnyUtf8) {
  const Tokenizer& tokenizer = TrainedTokenizer();
  std::mt19937_64 random(17);
  for (int i = 0; i < 3000; ++i) {
    const std::string text = RandomText(random);
    ASSERT_EQ(tokenizer.Decode(tokenizer.Encode(text)), text) << "case " << i;
  }
}

TEST(TokenizerTest, RoundTripsEveryCodePoint) {
  const Tokenizer& tokenizer = TrainedTokenizer();
  std::string text;
  for (uint32_t c = 0; c < 0x110000; c += c < 0x3000 ? 1 : 97) {
    if (c < 0xD800 || c >= 0xE000) AppendUtf8(c, &text);
  }
  EXPECT_EQ(tokenizer.Decode(tokenizer.Encode(text)), text);
}

TEST(TokenizerTest, NeverYieldsControlPiecesForText) {
  const Tokenizer& tokenizer = TrainedTokenizer();
  for (const int32_t id : tokenizer.Encode("<s> a </s> <unk>")) EXPECT_GT(id, 2);
}

TEST(TokenizerTest, DecodesDocumentsJoinedByEosAsSeparateTexts) {
  const Tokenizer& tokenizer = TrainedTokenizer();
  std::vector<int32_t> tokens = tokenizer.Encode("the router");
  tokens.push_back(tokenizer.eos_id());
  for (const int32_t id : tokenizer.Encode("return 12")) tokens.push_back(id);
  EXPECT_EQ(tokenizer.Decode(tokens), "the routerreturn 12");
}

TEST(TokenizerTest, LearnsPiecesFromLinesAsInText) {
  const Tokenizer& tokenizer = TrainedTokenizer();
  bool indentation = false;
  for (int32_t id = 259; id < tokenizer.vocab_size(); ++id) {
    const std::string piece = tokenizer.Piece(id);
    EXPECT_EQ(piece.find_first_of("\n\t"), std::string::npos) << piece;
    indentation |= piece == "\xE2\x96\x81\xE2\x96\x81";
  }
  EXPECT_TRUE(indentation);
  const std::string text = RandomLines(99, 50);
  EXPECT_LT(tokenizer.Encode(text).size(), text.size() / 2);
}

TEST(TokenizerTest, TrainingGivesTheSameBytes) {
  const auto a = FreshPath("a"), b = FreshPath("b");
  ASSERT_TRUE(TrainTokenizer(Sample(), {.vocab_size = 500}, a).ok());
  ASSERT_TRUE(TrainTokenizer(Sample(), {.vocab_size = 500}, b).ok());
  EXPECT_EQ(*ReadFile(a), *ReadFile(b));
}

TEST(TokenizerTest, SurvivesAWordLongerThanSentencePieceAllows) {
  std::vector<std::string> texts = Sample();
  texts.push_back(std::string(70000, 'x'));
  texts.push_back(std::string("a\0b", 3));
  EXPECT_TRUE(TrainTokenizer(texts, {.vocab_size = 500}, FreshPath("long")).ok());
}

TEST(TokenizerTest, EncodesFromManyThreads) {
  const Tokenizer& tokenizer = TrainedTokenizer();
  const std::string text = RandomLines(5, 100);
  const std::vector<int32_t> expected = tokenizer.Encode(text);
  std::vector<std::jthread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int j = 0; j < 20; ++j) EXPECT_EQ(tokenizer.Encode(text), expected);
    });
  }
}

TEST(TokenizerTest, SuggestsAPossibleVocabularySize) {
  const std::vector<std::string> small = {"to be or not to be"};
  const auto path = FreshPath("none");
  const absl::Status large = TrainTokenizer(small, {.vocab_size = 5000}, path);
  EXPECT_EQ(large.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(large.message()), AllOf(HasSubstr("got 5000"), HasSubstr("at most 2")));
  EXPECT_FALSE(std::filesystem::exists(path));
  const absl::Status tiny = TrainTokenizer(Sample(), {.vocab_size = 265}, path);
  EXPECT_EQ(tiny.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(tiny.message()), HasSubstr("expected at least 2"));
  EXPECT_THAT(std::string(TrainTokenizer(small, {.vocab_size = 100}, path).message()),
              HasSubstr("expected more than 259"));
}

TEST(TokenizerTest, FitsTheVocabularySizeToTheSample) {
  const std::vector<std::string> small = {"to be or not to be"};
  const auto path = FreshPath("fitted");
  ASSERT_TRUE(TrainTokenizer(small, {.vocab_size = 512, .fit_vocab_size = true}, path).ok());
  const int32_t most = Tokenizer::Load(path).value()->vocab_size();
  EXPECT_GT(most, 259);
  EXPECT_LT(most, 512);
  EXPECT_FALSE(TrainTokenizer(small, {.vocab_size = most + 1}, path).ok()) << "it is the largest";
  // The sample has more characters than 262 - 259.
  ASSERT_TRUE(TrainTokenizer(Sample(), {.vocab_size = 262, .fit_vocab_size = true}, path).ok());
  EXPECT_GT(Tokenizer::Load(path).value()->vocab_size(), 262);
}

TEST(TokenizerTest, RefusesAnEmptySample) {
  const std::vector<std::string> empty = {"", ""};
  EXPECT_THAT(std::string(TrainTokenizer(empty, {}, FreshPath("e")).message()), HasSubstr("empty"));
}

TEST(TokenizerTest, RefusesFilesThatAreNotModels) {
  const auto path = FreshPath("model");
  EXPECT_EQ(Tokenizer::Load(path).status().code(), absl::StatusCode::kNotFound);
  for (const std::string& bytes : {std::string(), std::string("{\"version\": "),
                                   std::string("\x0A\xFF\xFF\x03"), std::string(100, '\0')}) {
    ASSERT_TRUE(WriteFileAtomically(path, bytes).ok());
    const absl::Status status = Tokenizer::Load(path).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(path.string()));
  }
}

TEST(TokenizerTest, RefusesEveryTruncationOfAModel) {
  const auto whole = FreshPath("whole"), cut = FreshPath("cut");
  ASSERT_TRUE(TrainTokenizer(Sample(), {.vocab_size = 400}, whole).ok());
  const std::string bytes = *ReadFile(whole);
  for (size_t size = bytes.size() - 1; size > 0; size -= std::min<size_t>(size, 61)) {
    std::ofstream(cut, std::ios::binary) << bytes.substr(0, size);
    const absl::Status status = Tokenizer::Load(cut).status();
    ASSERT_FALSE(status.ok()) << size << " of " << bytes.size();
    EXPECT_THAT(std::string(status.message()), Not(HasSubstr("expected 0 ")));
  }
}

TEST(TokenizerTest, ReportsADamagedModelInUtf8AndWithoutSourcesOfTheLibrary) {
  const auto whole = FreshPath("whole"), damaged = FreshPath("damaged");
  ASSERT_TRUE(TrainTokenizer(Sample(), {.vocab_size = 400}, whole).ok());
  const std::string bytes = *ReadFile(whole);
  int fields = 0;
  for (size_t i = 0; i < bytes.size(); i += 7) {
    std::string copy = bytes;
    copy[i] = static_cast<char>(copy[i] ^ 0x80);
    std::ofstream(damaged, std::ios::binary) << copy;
    const std::string message(Tokenizer::Load(damaged).status().message());
    EXPECT_THAT(message, Not(HasSubstr(".cc("))) << "byte " << i;
    EXPECT_TRUE(IsValidUtf8(message)) << "byte " << i << ": " << message;
    fields += message.find("a field is damaged") != std::string::npos;
  }
  EXPECT_GT(fields, 0);
}

TEST(TokenizerDeathTest, ReportsAMissingModule) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  const auto path = FreshPath("x");
  ASSERT_TRUE(WriteFileAtomically(path, "model").ok());
  EXPECT_EXIT(
      {
        setenv("BRAID_SENTENCEPIECE_MODULE", "/nonexistent/module.so", 1);
        const absl::Status status = Tokenizer::Load(path).status();
        std::cerr << status.message();
        std::exit(absl::IsNotFound(status) ? 0 : 1);
      },
      testing::ExitedWithCode(0), "/nonexistent/module.so.*braid_sentencepiece");
}

}  // namespace tokenizer_test
}  // namespace braid
