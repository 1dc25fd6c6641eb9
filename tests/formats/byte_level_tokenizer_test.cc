#include "formats/byte_level_tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "base/utf8.h"
#include "formats/word_encoder.h"
#include "tests/formats/random_text.h"
#include "tests/formats/tiny_tokenizer_json.h"

namespace braid {
namespace byte_level_tokenizer_test {

using nlohmann::json;

std::unique_ptr<Tokenizer> Parsed(const json& tokenizer) {
  auto parsed = Tokenizer::Parse(tokenizer.dump(), "tokenizer.json");
  if (!parsed.ok()) ADD_FAILURE() << parsed.status();
  return *std::move(parsed);
}

// The ids are those of version 0.23 of the Python package `tokenizers`.
TEST(ByteLevelTokenizerTest, EqualsTheTokenizersLibrary) {
  const std::string text = "the cat  that\u00e9\n12";
  EXPECT_EQ(Parsed(TinyTokenizer({}))->Encode(text),
            (std::vector<int32_t>{257, 32, 260, 32, 32, 256, 261, 195, 169, 10, 49, 50}));
}

TEST(ByteLevelTokenizerTest, DecodesWhatItEncoded) {
  const auto tokenizer = Parsed(TinyTokenizer({}));
  std::mt19937_64 random(5);
  WordEncoder encoder(*tokenizer);
  for (int i = 0; i < 2000; ++i) {
    const std::string text = RandomPieces(random);
    const std::vector<int32_t> ids = tokenizer->Encode(text);
    ASSERT_EQ(tokenizer->Decode(ids), text);
    std::vector<int32_t> cached;
    encoder.Encode(text, &cached);
    ASSERT_EQ(cached, ids) << text;
  }
}

TEST(ByteLevelTokenizerTest, NeverFindsSpecialTokensInText) {
  const auto tokenizer = Parsed(TinyTokenizer({}));
  EXPECT_EQ(tokenizer->Piece(tokenizer->eos_id()), "<|endoftext|>");
  EXPECT_EQ(tokenizer->FindPiece("<|endoftext|>"), tokenizer->eos_id());
  EXPECT_EQ(tokenizer->FindPiece("<|im_end|>"), std::nullopt);
  const std::vector<int32_t> ids = tokenizer->Encode("a<|endoftext|>");
  EXPECT_EQ(std::ranges::count(ids, tokenizer->eos_id()), 0);
  EXPECT_EQ(tokenizer->Decode(ids), "a<|endoftext|>");
  EXPECT_EQ(tokenizer->Decode(std::vector<int32_t>{tokenizer->eos_id()}), "");
}

TEST(ByteLevelTokenizerTest, CutsOtherAddedTokensOutFirst) {
  json tiny = TinyTokenizer({});
  const int32_t id = tiny["added_tokens"][0]["id"].get<int32_t>() + 1;
  tiny["added_tokens"].push_back({{"id", id}, {"content", "he ca"}, {"special", false}});
  tiny["added_tokens"].push_back({{"id", id + 1}, {"content", "he"}, {"special", false}});
  const auto tokenizer = Parsed(tiny);
  EXPECT_EQ(tokenizer->Encode("the cat he"), (std::vector<int32_t>{'t', id, 't', ' ', id + 1}));
  EXPECT_EQ(tokenizer->Decode(tokenizer->Encode("the cat he")), "the cat he");
}

TEST(ByteLevelTokenizerTest, NormalizesOnlyWhereAsked) {
  const auto plain = Parsed(TinyTokenizer({}));
  const json nfd = {{"type", "NFD"}}, nfkc = {{"type", "NFKC"}};
  struct Case {
    json normalizer;
    const char* normalized;
  };
  // A ligature, a letter with a mark and one before a mark.
  const std::string text = "\ufb01 \u00e9 e\u0301";
  for (const Case& c : std::vector<Case>{
           {json(), "\ufb01 \u00e9 e\u0301"},
           {{{"type", "NFC"}}, "\ufb01 \u00e9 \u00e9"},
           {nfd, "\ufb01 e\u0301 e\u0301"},
           {nfkc, "fi \u00e9 \u00e9"},
           {{{"type", "NFKD"}}, "fi e\u0301 e\u0301"},
           {{{"type", "Sequence"}, {"normalizers", json::array()}}, "\ufb01 \u00e9 e\u0301"},
           {{{"type", "Sequence"}, {"normalizers", {nfkc, nfd}}}, "fi e\u0301 e\u0301"}}) {
    EXPECT_EQ(Parsed(TinyTokenizer({.normalizer = c.normalizer}))->Encode(text),
              plain->Encode(c.normalized))
        << c.normalizer;
  }
}

TEST(ByteLevelTokenizerTest, LeavesCharactersNewerThanUnicode9AsTheyAre) {
  // A mark of Unicode 14, which today's tables sort before the other mark, and a square era name of
  // Unicode 12.1, which they decompose. Models were trained with the tables of Unicode 9.
  const std::string text = "\u0c35\u0c4d\u0c3c \u32ff";
  const auto plain = Parsed(TinyTokenizer({}));
  for (const char* form : {"NFC", "NFD", "NFKC", "NFKD"}) {
    EXPECT_EQ(Parsed(TinyTokenizer({.normalizer = {{"type", form}}}))->Encode(text),
              plain->Encode(text))
        << form;
  }
}

TEST(ByteLevelTokenizerTest, TakesWholePiecesBeforeMerges) {
  // "cat" is not reached by the merges: "at" has the lower rank.
  TinyTokenizerOptions options{.merges = {{"a", "t"}, {"c", "a"}, {"ca", "t"}}};
  EXPECT_EQ(Parsed(TinyTokenizer(options))->Encode("cat").size(), 2u);
  options.ignore_merges = true;
  EXPECT_EQ(Parsed(TinyTokenizer(options))->Encode("cat").size(), 1u);
}

TEST(ByteLevelTokenizerTest, RefusesOtherTokenizersByName) {
  struct Case {
    const char* pointer;
    json value;
    const char* named;
  };
  const std::vector<Case> cases = {
      {"/model/type", "Unigram", "Unigram"},
      {"/model/dropout", 0.1, "model.dropout"},
      {"/model/byte_fallback", true, "model.byte_fallback"},
      {"/model/end_of_word_suffix", "</w>", "model.end_of_word_suffix"},
      {"/normalizer", {{"type", "Lowercase"}}, "Lowercase"},
      {"/normalizer",
       {{"type", "Sequence"}, {"normalizers", {{{"type", "NFC"}}, {{"type", "Replace"}}}}},
       "normalizer.normalizers[1]: got Replace"},
      {"/pre_tokenizer", {{"type", "Metaspace"}}, "Metaspace"},
      {"/pre_tokenizer", json(), "pre_tokenizer"},
      {"/truncation", {{"max_length", 512}}, "truncation"},
      {"/padding", {{"strategy", "BatchLongest"}}, "padding"},
      {"/decoder", {{"type", "WordPiece"}}, "decoder: got WordPiece"},
      {"/pre_tokenizer/add_prefix_space", true, "add_prefix_space"},
      {"/added_tokens/0/content", "", "added_tokens[0].content"},
      {"/added_tokens/0/id", -1, "added_tokens[0]"},
      {"/added_tokens/0/id", 3, "added_tokens[0]"},
      {"/added_tokens/0/content", "end", "end-of-sequence"},
      {"/model/merges/0", "abc", "model.merges[0]"},
      {"/model/merges/0", {"x", "y"}, "model.merges[0]"},
      {"/model/vocab/a", 5000000, "model.vocab[\"a\"]"},
      {"/model/vocab/\u4e2d", 300, "model.vocab"},
      {"/model/vocab", json::object(), "model.vocab"}};
  for (const Case& c : cases) {
    json tiny = TinyTokenizer({});
    tiny[json::json_pointer(c.pointer)] = c.value;
    const auto parsed = Tokenizer::Parse(tiny.dump(), "x/tokenizer.json");
    ASSERT_FALSE(parsed.ok()) << c.pointer;
    const std::string message(parsed.status().message());
    EXPECT_TRUE(message.starts_with("x/tokenizer.json: ")) << message;
    EXPECT_NE(message.find(c.named), std::string::npos) << message;
    EXPECT_LT(message.size(), 300u) << message;
  }
}

TEST(ByteLevelTokenizerTest, MessagesAboutLongValuesAreValidUtf8) {
  std::string dashes = "-";
  for (int i = 0; i < 60; ++i) dashes += "\u2013";
  json tiny = TinyTokenizer({.regex = dashes + "\\w\n"});
  const auto message = [&] {
    return std::string(Tokenizer::Parse(tiny.dump(), "x/tokenizer.json").status().message());
  };
  EXPECT_THAT(message(), testing::HasSubstr(".pattern: got -"));
  EXPECT_TRUE(IsValidUtf8(message()));
  tiny["pre_tokenizer"]["pretokenizers"][0]["behavior"] = dashes;
  EXPECT_THAT(message(), testing::HasSubstr(".behavior: got \"-"));
  EXPECT_TRUE(IsValidUtf8(message()));
}

TEST(ByteLevelTokenizerTest, CutFilesAreErrors) {
  const std::string whole = TinyTokenizerJson({.regex = "\\w+"});
  for (size_t size = 0; size < whole.size(); ++size) {
    const absl::Status status = Tokenizer::Parse(whole.substr(0, size), "x.json").status();
    ASSERT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << size;
    ASSERT_THAT(std::string(status.message()), testing::HasSubstr("x.json")) << size;
  }
}

}  // namespace byte_level_tokenizer_test
}  // namespace braid
