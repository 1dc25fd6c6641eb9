#include "formats/word_boundaries.h"

#include <gtest/gtest.h>

#include <string>

namespace braid {
namespace {

std::string Varint(uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes.push_back(static_cast<char>(value | 0x80));
  bytes.push_back(static_cast<char>(value));
  return bytes;
}

std::string Bytes(int number, const std::string& value) {
  return Varint(static_cast<uint64_t>(number) << 3 | 2) + Varint(value.size()) + value;
}

std::string Number(int number, uint64_t value) {
  return Varint(static_cast<uint64_t>(number) << 3) + Varint(value);
}

const std::string kSpace = "\xE2\x96\x81";

// A ModelProto as LLaMA's, but for what a test changes.
struct Model {
  std::vector<std::string> pieces = {"<unk>", kSpace, kSpace + "the", kSpace + kSpace, "\n"};
  std::string trainer = Number(3, 2) + Number(35, 1);
  std::string normalizer = Bytes(1, "identity") + Number(3, 1) + Number(4, 0) + Number(5, 1);

  WordBoundaries Boundaries() const {
    std::string model;
    for (const std::string& piece : pieces) {
      const std::string score("\x15\0\0\x80\x3f", 5);
      model += Bytes(1, Bytes(1, piece) + score + Number(3, 1));
    }
    return FindWordBoundaries(model + Bytes(2, trainer) + Bytes(3, normalizer));
  }
};

TEST(WordBoundariesTest, AreFoundInAModelLikeLlamas) {
  const WordBoundaries boundaries = Model().Boundaries();
  EXPECT_TRUE(boundaries.at_spaces);
  EXPECT_TRUE(boundaries.at_line_marks);
  EXPECT_EQ(boundaries.space_token, 1);
}

TEST(WordBoundariesTest, APieceOverASpaceForbidsThem) {
  for (const std::string& piece : {"of" + kSpace, "of" + kSpace + "the", std::string("a b")}) {
    Model model;
    model.pieces.push_back(piece);
    EXPECT_FALSE(model.Boundaries().at_spaces) << piece;
  }
}

TEST(WordBoundariesTest, APieceWithALineMarkForbidsThoseAtLineMarksOnly) {
  for (const std::string piece : {"\n\n", "}\n", "\tx"}) {
    Model model;
    model.pieces.push_back(piece);
    EXPECT_TRUE(model.Boundaries().at_spaces) << piece;
    EXPECT_FALSE(model.Boundaries().at_line_marks) << piece;
  }
}

TEST(WordBoundariesTest, OtherKindsOfModelsHaveNone) {
  const auto expect_none = [](const Model& model, const char* why) {
    EXPECT_FALSE(model.Boundaries().at_spaces) << why;
    EXPECT_FALSE(model.Boundaries().at_line_marks) << why;
  };
  const Model llama;
  Model model = llama;
  model.trainer = Number(3, 1) + Number(35, 1);
  expect_none(model, "unigram");
  model = llama;
  model.trainer = Number(3, 2);
  expect_none(model, "no byte fallback");
  model = llama;
  model.trainer += Number(24, 1);
  expect_none(model, "space as suffix");
  for (const std::string& change : {Bytes(2, "rules"), Number(3, 0), Number(4, 1), Number(5, 0)}) {
    model = llama;
    model.normalizer += change;
    expect_none(model, "normaliser");
  }
  model = llama;
  model.pieces.erase(model.pieces.begin() + 1);
  expect_none(model, "no piece for a space");
}

TEST(WordBoundariesTest, UnreadableBytesHaveNone) {
  EXPECT_FALSE(FindWordBoundaries("").at_spaces);
  EXPECT_FALSE(FindWordBoundaries("\x0A\xFF").at_spaces);
  EXPECT_FALSE(FindWordBoundaries("\x0A\x02\x0A\x7F").at_spaces);
}

}  // namespace
}  // namespace braid
