#include "retrieval/wordpiece_tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unicode/uchar.h>
#include <unicode/utf8.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/base/scratch_directory.h"
#include "tests/base/status_matchers.h"

namespace braid {
namespace wordpiece_tokenizer_test {

using std::string_literals::operator""s;
using testing::ElementsAreArray;
constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

constexpr char kSpecial[] = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n";

std::string Lines(const std::vector<std::string>& pieces) {
  std::string text = kSpecial;
  for (const std::string& piece : pieces) text += piece + "\n";
  return text;
}

WordPieceTokenizer TokenizerOf(const std::vector<std::string>& pieces, bool lower_case = true) {
  auto vocabulary = WordPieceVocabulary::Parse(Lines(pieces), "vocab.txt");
  EXPECT_TRUE(vocabulary.ok()) << vocabulary.status();
  return WordPieceTokenizer(*std::move(vocabulary), lower_case);
}

// Checks the pieces of a text, without [CLS] and [SEP].
class WordPieceTest : public testing::Test {
 protected:
  std::vector<std::string> Pieces(std::string_view text) const {
    const WordPieces encoded = tokenizer_.Encode(text, 1 << 20);
    EXPECT_FALSE(encoded.truncated);
    EXPECT_EQ(encoded.ids.front(), 2);
    EXPECT_EQ(encoded.ids.back(), 3);
    std::vector<std::string> pieces;
    for (size_t i = 1; i + 1 < encoded.ids.size(); ++i) {
      pieces.push_back(names_[static_cast<size_t>(encoded.ids[i])]);
    }
    return pieces;
  }
  void ExpectPieces(std::string_view text, const std::vector<std::string>& expected) const {
    EXPECT_THAT(Pieces(text), ElementsAreArray(expected)) << text;
  }

 private:
  const std::vector<std::string> own_ = {
      "un",  "##aff", "##able", "hello", "world", "cafe", "a",   "b",    "##a", "##b",
      "##c", "[",     "]",      "sep",   "cls",   "!",    ",",   ".",    "-",   "$",
      "=",   "中",    "国",     "か",    "##な",  "한",   "σας", "ας",   "σ",   "##σ",
      "##ς", "ς",     "i",      "¿",     "“",     "”",    "ss",  "ß",    "…",   "##s",
      ";",   "x",     "##x",    "豈",    "·",     "1",    "##2", "unaf", "€",   "##€",
  };
  const std::vector<std::string> names_ = [this] {
    std::vector<std::string> names = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};
    names.insert(names.end(), own_.begin(), own_.end());
    return names;
  }();
  const WordPieceTokenizer tokenizer_ = TokenizerOf(own_);
};

TEST_F(WordPieceTest, TakesTheLongestPieceFromTheLeft) {
  ExpectPieces("unaffable", {"[UNK]"});  // no piece starts the rest "fable"
  ExpectPieces("unable", {"un", "##able"});
  ExpectPieces("ab abc", {"a", "##b", "a", "##b", "##c"});
}

TEST_F(WordPieceTest, AWordWithAnUnknownPartIsUnknown) {
  ExpectPieces("abz hello zab", {"[UNK]", "hello", "[UNK]"});
}

TEST_F(WordPieceTest, LowerCasesAndStripsAccents) {
  ExpectPieces("CAFÉ Cafe\u0301 cafè", {"cafe", "cafe", "cafe"});
  ExpectPieces("İ", {"i"});
  ExpectPieces("ẞ ß", {"ß", "ß"});
  ExpectPieces("한", {"[UNK]"});  // decomposed into Jamo, as NFD does
}

TEST_F(WordPieceTest, HandlesTheFinalSigma) {
  ExpectPieces("ΣΑΣ", {"σας"});
  ExpectPieces("Σ", {"σ"});
  ExpectPieces("ΑΣ.Α", {"[UNK]"s, ".", "[UNK]"});  // a full stop does not end a word here
  ExpectPieces("x=ΑΣ中", {"x", "=", "ας", "中"});
  ExpectPieces("hello ΑΣ\u200b a", {"hello", "ας", "a"});
}

TEST_F(WordPieceTest, SplitsAtPunctuation) {
  ExpectPieces("hello,world!", {"hello", ",", "world", "!"});
  ExpectPieces("$a=b-1", {"$", "a", "=", "b", "-", "1"});
  ExpectPieces("“a”…", {"“", "a", "”", "…"});
  ExpectPieces("a€", {"a", "##€"});           // a symbol beyond ASCII is part of the word
  ExpectPieces("a≠b", {"a", "=", "b"});       // decomposes into punctuation and an accent
  ExpectPieces("a\u037Eb", {"a", ";", "b"});  // the Greek question mark is a semicolon
}

TEST_F(WordPieceTest, PutsSpacesAroundIdeographsOnly) {
  ExpectPieces("a中国b", {"a", "中", "国", "b"});
  ExpectPieces("かな", {"か", "##な"});
  ExpectPieces("\uF900", {"豈"});
}

TEST_F(WordPieceTest, DropsControlCharactersAndKeepsTheWordWhole) {
  ExpectPieces("he\0llo"s, {"hello"});
  ExpectPieces("he\u200dl\u00adl\u200bo\ufeff \x01\x7f", {"hello"});
  ExpectPieces("he\vllo wor\fld",
               {"hello", "world"});  // vertical tab and form feed are dropped too
  ExpectPieces("he\u0085llo \ue000\U000f0000\ufffd", {"hello"});
  ExpectPieces("a\u0378b", {"a", "##b"});  // unassigned
}

TEST_F(WordPieceTest, SplitsAtEverySpace) {
  ExpectPieces("a\tb\nb\rb\u00a0b\u3000b\u2028b\u2029b\u2003b",
               {"a", "b", "b", "b", "b", "b", "b", "b", "b"});
}

TEST_F(WordPieceTest, DropsBytesThatAreNotUtf8) {
  ExpectPieces("hel\xfflo wo\xe2\x82rld \xc0\x80", {"hello", "world"});
  ExpectPieces("\xed\xa0\x80 \xf5\x80\x80\x80 a\xe2", {"a"});
}

TEST_F(WordPieceTest, TextNeverGivesSpecialTokens) {
  ExpectPieces("[SEP] [CLS]", {"[", "sep", "]", "[", "cls", "]"});
  ExpectPieces("##a", {"[UNK]", "[UNK]", "a"});
}

TEST_F(WordPieceTest, GivesNoPiecesForEmptyText) {
  ExpectPieces("", {});
  ExpectPieces(" \n\u0301\u200b", {});
}

TEST_F(WordPieceTest, WordsOfMoreThanAHundredCharactersAreUnknown) {
  std::vector<std::string> hundred(100, "##x");
  hundred[0] = "x";
  ExpectPieces(std::string(100, 'x'), hundred);
  ExpectPieces(std::string(101, 'x') + " a", {"[UNK]", "a"});
  ExpectPieces(std::string(1'000'000, 'x') + "-a", {"[UNK]", "-", "a"});
  std::string accents = "x";
  for (int i = 0; i < 200; ++i) accents += "\u0301";
  ExpectPieces(accents, {"x"});
}

TEST(WordPieceTokenizerTest, KeepsCaseAndAccentsOfACasedModel) {
  const WordPieceTokenizer tokenizer = TokenizerOf({"Café", "cafe", "ΑΣ"}, false);
  EXPECT_THAT(tokenizer.Encode("Café cafe ΑΣ", 16).ids, ElementsAreArray({2, 5, 6, 7, 3}));
}

TEST(WordPieceTokenizerTest, ReportsTruncation) {
  const WordPieceTokenizer tokenizer = TokenizerOf({"a", "##b"});
  const auto expect = [&](const char* text, int32_t max_tokens, std::vector<int32_t> ids,
                          bool truncated) {
    const WordPieces pieces = tokenizer.Encode(text, max_tokens);
    EXPECT_EQ(pieces.ids, ids) << text;
    EXPECT_EQ(pieces.truncated, truncated) << text;
  };
  expect("a a", 4, {2, 5, 5, 3}, false);
  expect("a a \u0301", 4, {2, 5, 5, 3}, false);
  expect("a a a", 4, {2, 5, 5, 3}, true);
  expect("a ab", 4, {2, 5, 5, 3}, true);
  expect("a", 2, {2, 3}, true);
  expect("", 2, {2, 3}, false);
}

TEST(WordPieceVocabularyTest, RefusesFilesThatAreNotVocabularies) {
  const auto parse = [](const std::string& text) {
    return WordPieceVocabulary::Parse(text, "dir/vocab.txt");
  };
  EXPECT_FAILS(parse("[UNK]\n[CLS]\na\n"), kInvalid, "dir/vocab.txt", "[SEP]");
  EXPECT_FAILS(parse("[CLS]\n[SEP]\na\n"), kInvalid, "[UNK]");
  EXPECT_FAILS(parse("[UNK]\n[SEP]\na\n"), kInvalid, "[CLS]");
  EXPECT_FAILS(parse(""), kInvalid, "[UNK]");
  EXPECT_FAILS(parse(Lines({"a", "b", "a"})), kInvalid, "line 8", "\"a\"", "line 6");
  EXPECT_FAILS(parse(Lines({"a", "", "b"})), kInvalid, "line 7", "empty");
  EXPECT_FAILS(parse(Lines({"\xff"})), kInvalid, "line 6", "UTF-8");
  EXPECT_FAILS(parse(std::string((64 << 20) + 1, 'a')), kInvalid, "bytes");
  std::string many = kSpecial;
  for (int i = 0; i < (1 << 20); ++i) many += std::to_string(i) + "\n";
  EXPECT_FAILS(parse(many), kInvalid, "pieces");
  ASSERT_OK_AND_ASSIGN(const auto windows, parse("[UNK]\r\n[CLS]\r\n[SEP]\r\na"));
  EXPECT_EQ(windows.size(), 4);
}

TEST(WordPieceTokenizerTest, ReadsAModelDirectory) {
  ScratchDirectory scratch;
  const auto load = [&] { return WordPieceTokenizer::Load(scratch.path()); };
  EXPECT_FAILS(load(), absl::StatusCode::kNotFound, "vocab.txt");
  PutFile(scratch / "vocab.txt", Lines({"a", "A"}));
  ASSERT_OK_AND_ASSIGN(auto tokenizer, load());
  EXPECT_EQ(tokenizer.Encode("A", 8).ids[1], 5);
  PutFile(scratch / "tokenizer_config.json", R"({"do_lower_case": false, "strip_accents": null})");
  ASSERT_OK_AND_ASSIGN(auto cased, load());
  EXPECT_EQ(cased.Encode("A", 8).ids[1], 6);
  EXPECT_NE(cased.Settings(), tokenizer.Settings());
  for (const char* wrong :
       {R"({"do_lower_case": 1})", R"({"do_lower_case": null})", R"({"strip_accents": false})",
        R"({"tokenize_chinese_chars": false})"}) {
    PutFile(scratch / "tokenizer_config.json", wrong);
    EXPECT_FAILS(load(), kInvalid, "tokenizer_config.json", "got", "expected");
  }
  PutFile(scratch / "tokenizer_config.json", "[");
  EXPECT_FAILS(load(), kInvalid, "tokenizer_config.json");
}

TEST(WordPieceTokenizerTest, ReadsATokenizerJsonWhereThereIsNoVocabulary) {
  ScratchDirectory scratch;
  const auto load = [&] { return WordPieceTokenizer::Load(scratch.path()); };
  const auto put = [&](const char* ends, const char* lower_case) {
    PutFile(
        scratch / "tokenizer.json",
        absl::StrCat(R"({"model": {"type": "WordPiece", "unk_token": "[UNK]", "vocab": {)", ends,
                     R"("[UNK]": 0, "a": 3, "A": 4}}, "normalizer": {"type": "BertNormalizer", )",
                     R"("lowercase": )", lower_case,
                     R"(}, "pre_tokenizer": {"type": "BertPreTokenizer"}})"));
  };
  constexpr const char* kEnds = R"("[CLS]": 1, "[SEP]": 2, )";
  put(kEnds, "true");
  ASSERT_OK_AND_ASSIGN(const auto tokenizer, load());
  EXPECT_EQ(tokenizer.Encode("A", 8).ids, (std::vector<int32_t>{1, 3, 2}));
  put(kEnds, "false");
  ASSERT_OK_AND_ASSIGN(const auto cased, load());
  EXPECT_EQ(cased.Encode("A", 8).ids, (std::vector<int32_t>{1, 4, 2}));
  PutFile(scratch / "tokenizer_config.json", R"({"do_lower_case": true})");
  EXPECT_FAILS(load(), kInvalid, "tokenizer.json", "lowercase", "do_lower_case");
  std::filesystem::remove(scratch / "tokenizer_config.json");
  put(R"("x": 1, "y": 2, )", "true");
  EXPECT_FAILS(load(), kInvalid, "tokenizer.json", "[CLS]");
}

std::string Utf8Of(int32_t c) {
  char bytes[4];
  size_t size = 0;
  U8_APPEND_UNSAFE(bytes, size, c);
  return std::string(bytes, size);
}

// Returns seeded texts of all characters that matter to a step of the tokenization.
class RandomTexts {
 public:
  explicit RandomTexts(uint32_t seed) : random_(seed) {
    for (int32_t c = 0; c < 0x30000; ++c) {
      if (IsOld(c)) characters_.push_back(c);
    }
  }

  std::string Next() {
    std::string text;
    const int parts = Below(40);
    for (int i = 0; i < parts; ++i) AppendPart(&text);
    return text;
  }
  // Characters with the same properties in every Unicode version since 13 (not U+1171E).
  const std::vector<int32_t>& characters() const { return characters_; }

 private:
  static bool IsOld(int32_t c) {
    UVersionInfo age;
    u_charAge(c, age);
    return age[0] > 0 && age[0] <= 13 && !U_IS_SURROGATE(c) && c != 0x1171E;
  }
  int Below(int n) { return static_cast<int>(random_() % static_cast<uint32_t>(n)); }

  static void Append(int32_t c, std::string* text) { *text += Utf8Of(c); }
  void AppendPart(std::string* text) {
    static const std::vector<std::string> kNotable = {
        " ",           "\t",           "\r\n",   "\u2028",     "\u00a0", "\u200b", "\u0301",
        "\u0345",      "\u0327",       "Σ",      "ΑΣ",         "ΣΣ",     "İ",      "ǅ",
        "ﬁ",           "中",           "\uf900", "\U0002f800", "한",     "\u1100", "≠",
        "\u037e",      "[SEP]",        "##",     "'",          ".",      "\0"s,    "\xff",
        "\xe2\x82",    "\xed\xa0\x80", "\ufffe", "\ue000",     "\u302e", "\u1b44", "\U0001d165",
        "\U0001d15e",  "\u0f71\u0f72", "\u0f73", "lower",      "UPPER",  "Don't",  "a-b_c$d",
        "\v\f\x1c\x85"};
    switch (Below(5)) {
      case 0:
        return Append(characters_[random_() % characters_.size()], text);
      case 1:
        return Append(Below(0x250), text);
      case 2:
        return Append(0x370 + Below(0x90), text);
      case 3:
        if (Below(50) == 0) text->append(static_cast<size_t>(90 + Below(20)), 'x');
        return text->append(Below(3) == 0 ? " " : ""), Append('a' + Below(26), text);
      default:
        *text += kNotable[static_cast<size_t>(Below(static_cast<int>(kNotable.size())))];
    }
  }

  std::mt19937 random_;
  std::vector<int32_t> characters_;
};

// Every character is a piece, and so are some longer strings, so every difference of the normalized
// text is detected.
std::string TransparentVocabulary(const RandomTexts& texts) {
  std::string vocabulary = kSpecial;
  for (const int32_t c : texts.characters()) {
    if (c < 0x20 || (c >= 0x80 && c < 0xa0)) continue;
    vocabulary += Utf8Of(c) + "\n##" + Utf8Of(c) + "\n";
  }
  for (const char* piece :
       {"low", "##er", "##per", "up", "don", "ab", "##ab", "##abc", "σσ", "##σς"}) {
    vocabulary += std::string(piece) + "\n";
  }
  return vocabulary;
}

void AppendFramed(std::string_view bytes, std::string* out) {
  const auto size = static_cast<uint32_t>(bytes.size());
  out->append(reinterpret_cast<const char*>(&size), sizeof(size)).append(bytes);
}

class WordPieceReferenceTest : public testing::Test {
 protected:
  static bool RunReference(const std::filesystem::path& vocabulary,
                           const std::filesystem::path& texts, const std::filesystem::path& ids) {
    const std::string line = std::string("'") + BRAID_PYTHON + "' '" +
                             BRAID_TESTS_DIR "/retrieval/wordpiece_reference.py" + "' '" +
                             vocabulary.string() + "' '" + texts.string() + "' '" + ids.string() +
                             "'";
    return std::system(line.c_str()) == 0;
  }

  // Runs both tokenizers on the same texts.
  void Compare(const std::string& vocabulary, const std::vector<std::string>& texts) {
    if (std::system("'" BRAID_PYTHON "' -c 0 2>/dev/null") != 0) GTEST_SKIP() << "no python3";
    ScratchDirectory scratch;
    std::string framed, ours;
    ASSERT_OK_AND_ASSIGN(auto parsed, WordPieceVocabulary::Parse(vocabulary, "vocab.txt"));
    const WordPieceTokenizer tokenizer(std::move(parsed), true);
    for (const std::string& text : texts) {
      AppendFramed(text, &framed);
      const WordPieces pieces = tokenizer.Encode(text, 1 << 20);
      AppendFramed({reinterpret_cast<const char*>(pieces.ids.data()), 4 * pieces.ids.size()},
                   &ours);
    }
    PutFile(scratch / "vocab.txt", vocabulary);
    PutFile(scratch / "texts", framed);
    ASSERT_TRUE(RunReference(scratch / "vocab.txt", scratch / "texts", scratch / "ids"));
    const std::string theirs = GetFile(scratch / "ids");
    if (ours != theirs) ReportFirst(ours, theirs, texts);
  }

 private:
  static std::vector<int32_t> TakeIds(std::string_view* framed) {
    uint32_t size = 0;
    std::memcpy(&size, framed->data(), sizeof(size));
    std::vector<int32_t> ids(size / 4);
    std::memcpy(ids.data(), framed->data() + 4, size);
    framed->remove_prefix(4 + size);
    return ids;
  }
  static void ReportFirst(std::string_view ours, std::string_view theirs,
                          const std::vector<std::string>& texts) {
    for (const std::string& text : texts) {
      const std::vector<int32_t> got = TakeIds(&ours), expected = TakeIds(&theirs);
      ASSERT_EQ(got, expected) << testing::PrintToString(text);
    }
    FAIL() << "the same ids, but other bytes";
  }
};

TEST_F(WordPieceReferenceTest, AgreesOnThousandsOfRandomTexts) {
  RandomTexts texts(7);
  std::vector<std::string> all;
  for (int i = 0; i < 6000; ++i) all.push_back(texts.Next());
  Compare(TransparentVocabulary(texts), all);
}

TEST_F(WordPieceReferenceTest, AgreesOnEveryCharacter) {
  RandomTexts texts(7);
  std::vector<std::string> all;
  for (const int32_t c : texts.characters()) all.push_back("a" + Utf8Of(c) + "b");
  Compare(TransparentVocabulary(texts), all);
}

// Uses the published vocabulary if BRAID_BERT_VOCABULARY names it.
TEST_F(WordPieceReferenceTest, AgreesWithThePublishedVocabulary) {
  const char* path = std::getenv("BRAID_BERT_VOCABULARY");
  if (path == nullptr) GTEST_SKIP() << "BRAID_BERT_VOCABULARY is not set";
  RandomTexts texts(8);
  std::vector<std::string> all = {GetFile(BRAID_TESTS_DIR "/retrieval/wordpiece_reference.py")};
  for (int i = 0; i < 3000; ++i) all.push_back(texts.Next());
  Compare(GetFile(path), all);
}

}  // namespace wordpiece_tokenizer_test
}  // namespace braid
