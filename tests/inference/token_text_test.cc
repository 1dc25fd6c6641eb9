#include "inference/token_text.h"

#include <iostream>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "inference/loaded_model.h"
#include "inference/prompt.h"
#include "tests/formats/tiny_tokenizer_json.h"
#include "tests/trainer/text_run.h"

namespace braid {
namespace token_text_test {

class TokenTextTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    SetModelThreads(1);
    loaded_ = new LoadedModel(*LoadedModel::Load(TrainTextRun().root(), /*strict=*/true));
  }
  static const Tokenizer& tokenizer() { return *loaded_->tokenizer; }
  static v1::ModelConfig Context(int64_t sequence_length) {
    v1::ModelConfig config;
    config.set_sequence_length(static_cast<int32_t>(sequence_length));
    return config;
  }

  static LoadedModel* loaded_;
};

LoadedModel* TokenTextTest::loaded_ = nullptr;

// Includes byte tokens that form no character, and all prefixes of texts. `first_byte` is the piece
// of byte 0.
void CheckAgainstDecodingEveryTokenEachTime(const Tokenizer& tokenizer, int first_byte) {
  std::mt19937 random(5);
  const std::vector<std::string> prompts = {"",   "the cat",         "a ", "caf\xC3\xA9", "\n",
                                            "  ", "\xF0\x9F\x98\x80"};
  for (int round = 0; round < 400; ++round) {
    std::vector<int32_t> all = PromptTokens({}, tokenizer, prompts[round % prompts.size()]);
    TextStream expected(tokenizer.Decode(all).size());
    TokenText text(tokenizer, all);
    for (int i = 0; i < 40; ++i) {
      const bool is_byte = round % 2 == 0 && random() % 2 == 0;
      const int below = is_byte ? first_byte + 256 : tokenizer.vocab_size();
      all.push_back(static_cast<int32_t>(random() % static_cast<uint32_t>(below)));
      if (all.back() == tokenizer.eos_id()) all.back() = 1;
      EXPECT_EQ(text.Add(all.back()), expected.Next(tokenizer.Decode(all))) << round << " " << i;
    }
    EXPECT_EQ(text.Finish(), expected.Finish(tokenizer.Decode(all))) << round;
  }
}

void CheckCharactersAreEmittedWhole(const Tokenizer& tokenizer) {
  const std::string written = "na\xC3\xAFve \xF0\x9F\x98\x80 \xE2\x82\xAC 5";
  TokenText text(tokenizer, PromptTokens({}, tokenizer, ""));
  std::string all;
  for (const int32_t token : tokenizer.Encode(written)) {
    const std::string part = text.Add(token);
    EXPECT_EQ(StableLength(part), part.size());
    all += part;
  }
  EXPECT_EQ(all + text.Finish(), written);
}

TEST_F(TokenTextTest, EqualsDecodingEveryTokenEachTime) {
  CheckAgainstDecodingEveryTokenEachTime(tokenizer(), 3);
}

TEST_F(TokenTextTest, CharactersOfSeveralTokensAreEmittedWhole) {
  CheckCharactersAreEmittedWhole(tokenizer());
}

// Every character beyond ASCII takes several tokens.
TEST(ByteLevelTokenTextTest, NeverEmitsHalfACharacter) {
  const auto bytes = Tokenizer::Parse(TinyTokenizerJson({}), "tokenizer.json");
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  CheckAgainstDecodingEveryTokenEachTime(**bytes, 0);
  CheckCharactersAreEmittedWhole(**bytes);
}

TEST_F(TokenTextTest, PromptsBeginWithTheStartTokenOfTheModel) {
  const std::vector<int32_t> text = tokenizer().Encode("the cat");
  const auto first = [&](v1::StartToken start, const std::string& prompt) {
    v1::ModelConfig config;
    config.set_start_token(start);
    return PromptTokens(config, tokenizer(), prompt);
  };
  EXPECT_EQ(first(v1::START_TOKEN_UNSPECIFIED, "the cat")[0], tokenizer().eos_id());
  EXPECT_EQ(first(v1::START_WITH_EOS, "the cat")[0], tokenizer().eos_id());
  EXPECT_EQ(first(v1::START_WITH_BOS, "the cat")[0], tokenizer().bos_id());
  EXPECT_EQ(first(v1::START_WITH_BOS, "the cat").size(), text.size() + 1);
  EXPECT_EQ(first(v1::START_WITH_NONE, "the cat"), text);
  EXPECT_EQ(first(v1::START_WITH_NONE, ""), std::vector<int32_t>{tokenizer().eos_id()});
}

// Only as much of a long prompt is read as shows that it does not fit.
TEST_F(TokenTextTest, PromptsThatDoNotFitAreRefused) {
  EXPECT_EQ(FittingPromptTokens(Context(32), tokenizer(), "the cat").value(),
            PromptTokens({}, tokenizer(), "the cat"));
  for (const size_t bytes : {40, 400, 4000, 40000000}) {
    const auto refused = FittingPromptTokens(Context(8), tokenizer(), std::string(bytes, 'x'));
    EXPECT_TRUE(absl::IsInvalidArgument(refused.status())) << bytes;
    EXPECT_NE(refused.status().message().find("expected at most 8"), absl::string_view::npos);
  }
  const std::string words = "the cat sat on the mat and the dog sat on the cat";
  const auto all = static_cast<int64_t>(PromptTokens({}, tokenizer(), words).size());
  EXPECT_TRUE(FittingPromptTokens(Context(all), tokenizer(), words).ok());
  EXPECT_FALSE(FittingPromptTokens(Context(all - 1), tokenizer(), words).ok());
}

}  // namespace token_text_test
}  // namespace braid
