#include "formats/sentencepiece_json.h"

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "base/utf8.h"
#include "formats/tokenizer.h"
#include "tests/base/scratch_directory.h"
#include "tests/base/status_matchers.h"
#include "tests/formats/random_text.h"

namespace braid {
namespace sentencepiece_json_test {

using Json = nlohmann::json;

// Encodes as the `tokenizers` library does, one merge of the lowest rank at a time.
class PlainBpe {
 public:
  explicit PlainBpe(const Json& root) : vocabulary_(root["model"]["vocab"]) {
    const Json& merges = root["model"]["merges"];
    for (size_t rank = 0; rank < merges.size(); ++rank) {
      ranks_[{merges[rank][0], merges[rank][1]}] = rank;
    }
  }

  std::vector<int32_t> Encode(const std::string& text) const {
    if (text.empty()) return {};
    std::vector<std::string> symbols =
        SymbolsOf(absl::StrReplaceAll(absl::StrCat(" ", text), {{" ", "\u2581"}}));
    while (MergeOnce(&symbols)) {
    }
    std::vector<int32_t> ids;
    for (const std::string& symbol : symbols) ids.push_back(vocabulary_[symbol]);
    return ids;
  }

 private:
  std::vector<std::string> SymbolsOf(const std::string& text) const {
    std::vector<std::string> symbols;
    for (size_t begin = 0, end = 0; begin < text.size(); begin = end) {
      for (end = begin + 1; end < text.size() && IsContinuationByte(text[end]);) ++end;
      const std::string character = text.substr(begin, end - begin);
      if (vocabulary_.contains(character)) {
        symbols.push_back(character);
        continue;
      }
      for (const char byte : character) {
        symbols.push_back(absl::StrFormat("<0x%02X>", static_cast<uint8_t>(byte)));
      }
    }
    return symbols;
  }

  bool MergeOnce(std::vector<std::string>* symbols) const {
    size_t best = ranks_.size(), place = 0;
    for (size_t i = 0; i + 1 < symbols->size(); ++i) {
      const auto found = ranks_.find({(*symbols)[i], (*symbols)[i + 1]});
      if (found == ranks_.end() || found->second >= best) continue;
      best = found->second;
      place = i;
    }
    if (best == ranks_.size()) return false;
    (*symbols)[place] += (*symbols)[place + 1];
    symbols->erase(symbols->begin() + static_cast<ptrdiff_t>(place) + 1);
    return true;
  }

  Json vocabulary_;
  std::map<std::pair<std::string, std::string>, size_t> ranks_;
};

TEST(SentencePieceJsonTest, GivesTheIdsOfTheModel) {
  ScratchDirectory scratch;
  const std::vector<std::string> sample = {RandomLines(1, 400)};
  ASSERT_OK(TrainTokenizer(sample, {.vocab_size = 600}, scratch / "tokenizer.model"));
  ASSERT_OK_AND_ASSIGN(const auto tokenizer, Tokenizer::Load(scratch / "tokenizer.model"));
  ASSERT_OK_AND_ASSIGN(const std::string text,
                       SentencePieceJson(GetFile(scratch / "tokenizer.model"), std::nullopt));
  const PlainBpe bpe(Json::parse(text));
  std::mt19937_64 random(2);
  for (int i = 0; i < 500; ++i) {
    std::string one = i % 2 == 0 ? RandomText(random) : RandomLines(random(), 2);
    // Braid keeps the bytes of the symbol for spaces.
    one = absl::StrReplaceAll(one, {{"\u2581", "_"}});
    ASSERT_EQ(bpe.Encode(one), tokenizer->Encode(one)) << one;
  }
}

TEST(SentencePieceJsonTest, PutsTheStartTokenBeforeATextThatIsGivenOne) {
  ScratchDirectory scratch;
  const std::vector<std::string> sample = {RandomLines(1, 400)};
  ASSERT_OK(TrainTokenizer(sample, {.vocab_size = 600}, scratch / "tokenizer.model"));
  const std::string model = GetFile(scratch / "tokenizer.model");
  ASSERT_OK_AND_ASSIGN(const std::string without, SentencePieceJson(model, std::nullopt));
  EXPECT_TRUE(Json::parse(without)["post_processor"].is_null());
  ASSERT_OK_AND_ASSIGN(const std::string with, SentencePieceJson(model, 1));
  const Json processor = Json::parse(with)["post_processor"];
  EXPECT_EQ(processor["single"][0]["SpecialToken"]["id"], "<s>");
  EXPECT_EQ(processor["special_tokens"]["<s>"]["ids"], Json({1}));
  EXPECT_EQ(Json::parse(with)["added_tokens"].size(), 3u);
}

std::string Field(int number, const std::string& bytes) {
  return std::string{static_cast<char>(number << 3 | 2), static_cast<char>(bytes.size())} + bytes;
}

std::string Piece(const std::string& text, char type) {
  return Field(1, Field(1, text) + std::string("\x15\0\0\x80\x3f\x18", 6) + type);
}

TEST(SentencePieceJsonTest, RefusesWhatTheLibraryCannotExpressByName) {
  const std::string bpe("\x18\x02\x98\x02\x01", 5);        // model_type, byte_fallback
  const std::string plain("\x18\x01\x20\x00\x28\x01", 6);  // dummy space, none removed, escaped
  const std::string unknown = Piece("<unk>", 2);
  const auto refused = [&](const std::string& pieces, const std::string& trainer,
                           const std::string& normalizer, const char* name) {
    EXPECT_FAILS(SentencePieceJson(pieces + Field(2, trainer) + Field(3, normalizer), std::nullopt),
                 absl::StatusCode::kUnimplemented, name);
  };
  ASSERT_OK(SentencePieceJson(unknown + Field(2, bpe) + Field(3, plain), std::nullopt));
  refused(unknown, bpe.substr(2), plain, "model_type 1");
  refused(unknown, bpe.substr(0, 2), plain, "byte_fallback");
  refused(unknown, bpe + std::string("\xC0\x01\x01", 3), plain, "treat_whitespace_as_suffix");
  refused(unknown, bpe, plain + Field(2, "rules"), "rules of normalization");
  refused(unknown, bpe, plain + std::string("\x18\x00", 2), "add_dummy_prefix");
  refused(unknown, bpe, plain + std::string("\x20\x01", 2), "remove_extra_whitespaces");
  refused(unknown, bpe, plain + std::string("\x28\x00", 2), "escape_whitespaces");
  refused(unknown + Piece("a", 4), bpe, plain, "user-defined");
  refused(unknown + Piece("a", 5), bpe, plain, "unused");
  refused(unknown + Piece("a", 1) + Piece("ab", 1), bpe, plain, "\"ab\"");
  refused(unknown + Piece("a", 1) + Piece("a", 3), bpe, plain, "\"a\" twice");
  refused(Piece("a", 1), bpe, plain, "no unknown piece");
}

}  // namespace sentencepiece_json_test
}  // namespace braid
