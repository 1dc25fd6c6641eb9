#include "formats/word_boundaries.h"

#include <gtest/gtest.h>

#include <string>

namespace braid {
namespace word_boundaries_test {

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

// A ModelProto like LLaMA's, with settings that a test can change.
struct Model {
  std::vector<std::string> pieces = {"<unk>", kSpace, kSpace + "the", kSpace + kSpace, "\n"};
  std::string others;  // serialized pieces
  std::string trainer = Number(3, 2) + Number(35, 1);
  std::string normalizer = Bytes(1, "identity") + Number(3, 1) + Number(4, 0) + Number(5, 1);

  WordBoundaries Boundaries() const {
    std::string model;
    for (const std::string& piece : pieces) {
      const std::string score("\x15\0\0\x80\x3f", 5);
      model += Bytes(1, Bytes(1, piece) + score + Number(3, 1));
    }
    return FindWordBoundaries(model + others + Bytes(2, trainer) + Bytes(3, normalizer));
  }
};

TEST(WordBoundariesTest, AreWhereNoPieceSpansTwoCharacters) {
  const WordBoundaries boundaries = Model().Boundaries();
  ASSERT_TRUE(boundaries.known);
  EXPECT_EQ(boundaries.space_token, 1);
  EXPECT_EQ(boundaries.mark, '\n');
  EXPECT_TRUE(boundaries.CanCut('e', ' '));
  EXPECT_TRUE(boundaries.CanCut('e', '('));
  EXPECT_TRUE(boundaries.CanCut('h', 't'));
  EXPECT_TRUE(boundaries.CanCut('\n', '\n'));
  EXPECT_FALSE(boundaries.CanCut(' ', 't'));
  EXPECT_FALSE(boundaries.CanCut('t', 'h'));
  EXPECT_FALSE(boundaries.CanCut(' ', ' '));
}

TEST(WordBoundariesTest, AreNeverInsideACharacter) {
  EXPECT_FALSE(Model().Boundaries().CanCut('\xC3', '\xA9'));
  EXPECT_TRUE(Model().Boundaries().CanCut('\xA9', '\xC3'));
}

TEST(WordBoundariesTest, PiecesThatDoNotOccurInTextsJoinNothing) {
  for (const int type : {2, 3, 6}) {
    Model model;
    model.others = Bytes(1, Bytes(1, "<0x0A>") + Number(3, static_cast<uint64_t>(type)));
    EXPECT_TRUE(model.Boundaries().CanCut('<', '0')) << type;
  }
  for (const int type : {4, 5}) {
    Model model;
    model.others = Bytes(1, Bytes(1, "<user>") + Number(3, static_cast<uint64_t>(type)));
    EXPECT_FALSE(model.Boundaries().CanCut('<', 'u')) << type;
  }
}

TEST(WordBoundariesTest, MarkIsACharacterThatNothingJoins) {
  Model model;
  model.pieces.push_back("\n\n");
  EXPECT_EQ(model.Boundaries().mark, '\t');
  for (const char mark : {'\t', '\r', '\x01', '\x02', '\x03'}) {
    model.pieces.push_back(std::string("x") + mark);
  }
  EXPECT_FALSE(model.Boundaries().known);
}

TEST(WordBoundariesTest, AreUnknownForOtherKindsOfModels) {
  Model model;
  model.trainer = Number(3, 1) + Number(35, 1);
  EXPECT_FALSE(model.Boundaries().known) << "unigram";
  model.trainer = Number(3, 2);
  EXPECT_FALSE(model.Boundaries().known) << "no byte fallback";
  model.trainer = Model().trainer + Number(24, 1);
  EXPECT_FALSE(model.Boundaries().known) << "space as suffix";
  for (const std::string& change : {Bytes(2, "rules"), Number(3, 0), Number(4, 1), Number(5, 0)}) {
    model = Model();
    model.normalizer += change;
    EXPECT_FALSE(model.Boundaries().known) << "normalizer";
  }
  model = Model();
  model.pieces.erase(model.pieces.begin() + 1);
  EXPECT_FALSE(model.Boundaries().known) << "no piece for a space";
}

TEST(WordBoundariesTest, AreUnknownForUnreadableBytes) {
  EXPECT_FALSE(FindWordBoundaries("").known);
  EXPECT_FALSE(FindWordBoundaries("\x0A\xFF").known);
  EXPECT_FALSE(FindWordBoundaries("\x0A\x02\x0A\x7F").known);
}

}  // namespace word_boundaries_test
}  // namespace braid
