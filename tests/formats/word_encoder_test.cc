#include "formats/word_encoder.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "tests/base/crafted_files.h"
#include "tests/formats/random_text.h"

namespace braid {
namespace word_encoder_test {

std::unique_ptr<Tokenizer> Trained(int32_t vocab_size) {
  const CraftedFiles files;
  const auto path = files.directory() / "tokenizer.model";
  std::vector<std::string> texts;
  for (int i = 0; i < 20; ++i) texts.push_back(RandomLines(i, 60));
  const absl::Status status = TrainTokenizer(texts, {.vocab_size = vocab_size}, path);
  if (!status.ok()) ADD_FAILURE() << status;
  auto loaded = Tokenizer::Load(path);
  if (!loaded.ok()) ADD_FAILURE() << loaded.status();
  return *std::move(loaded);
}

std::vector<int32_t> Encoded(std::string_view text, WordEncoder* encoder) {
  std::vector<int32_t> ids;
  encoder->Encode(text, &ids);
  return ids;
}

TEST(WordEncoderTest, EqualsTheTokenizerOnAnyText) {
  for (const int32_t vocab_size : {300, 450, 700}) {
    const auto tokenizer = Trained(vocab_size);
    ASSERT_NE(tokenizer->word_boundaries(), nullptr);
    WordEncoder encoder(*tokenizer);
    std::mt19937_64 random(static_cast<uint64_t>(vocab_size));
    for (int i = 0; i < 4000; ++i) {
      const std::string text = RandomText(random);
      ASSERT_EQ(Encoded(text, &encoder), tokenizer->Encode(text)) << i << ": " << text;
    }
    const std::string lines = RandomLines(99, 300);
    EXPECT_EQ(Encoded(lines, &encoder), tokenizer->Encode(lines));
  }
}

TEST(WordEncoderTest, EqualsTheTokenizerAtTheEdgesOfTexts) {
  const auto tokenizer = Trained(450);
  WordEncoder encoder(*tokenizer);
  for (const std::string text :
       {"", " ", "  ", "the", " the", "the ", "the  ", "\n", "\n\n", " \n", "\n ", " \n ", "\t the",
        "the\n", "the \n the", "the\n  the", "   \n   ", "\r\n\r\n", "the\tthe \t the"}) {
    EXPECT_EQ(Encoded(text, &encoder), tokenizer->Encode(text)) << '"' << text << '"';
  }
}

TEST(WordEncoderTest, EvictionDoesNotChangeTokens) {
  const auto tokenizer = Trained(450);
  WordEncoder forgetful(*tokenizer, /*max_bytes=*/2000);
  for (int i = 0; i < 20; ++i) {
    const std::string text = RandomLines(i, 50);
    ASSERT_EQ(Encoded(text, &forgetful), tokenizer->Encode(text)) << i;
  }
}

TEST(WordEncoderTest, Appends) {
  const auto tokenizer = Trained(450);
  WordEncoder encoder(*tokenizer);
  std::vector<int32_t> ids = {7};
  encoder.Encode("the", &ids);
  std::vector<int32_t> expected = tokenizer->Encode("the");
  expected.insert(expected.begin(), 7);
  EXPECT_EQ(ids, expected);
}

}  // namespace word_encoder_test
}  // namespace braid
