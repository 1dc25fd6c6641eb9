#include "formats/byte_level_tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unicode/normalizer2.h>
#include <unicode/regex.h>
#include <unicode/uniset.h>
#include <unicode/utext.h>

#include <fstream>
#include <random>

#include "absl/strings/str_replace.h"
#include "base/atomic_file.h"
#include "base/utf8.h"
#include "formats/byte_pair_merges.h"
#include "formats/text_normalizer.h"
#include "formats/word_encoder.h"
#include "tests/base/crafted_files.h"
#include "tests/formats/random_text.h"
#include "tests/formats/tiny_tokenizer_json.h"

namespace braid {
namespace byte_level_tokenizer_test {

using nlohmann::json;

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

// White space, contractions, digits, cases, marks, and any character.
std::string RandomPieces(std::mt19937_64& random) {
  static constexpr const char* kParts[] = {
      " ",      "  ",     "\n",     "\r\n",       "\t",      "\u00a0",  "\u2028",
      "\x01",   "\u200d", "\u3042", "\u30fb",     "\u9fa5",  "\u9fa6",  "\u3041",
      "\v",     "\u0085", "'s",     "'RE",        "'\u017f", "'",       "'ll",
      "a",      "Word",   "UP",     "\u01c5",     "\u02b0",  "\u4e2d",  "\u0301",
      "\u0903", "1",      "2345",   "\u00bd",     "\u0663",  ".",       "/",
      "//\n",   "--",     "\u20ac", "\U0001f600", "\u00e9",  "e\u0301", "_"};
  std::string text;
  for (auto n = random() % 24; n > 0; --n) {
    if (random() % 8 == 0) {
      const uint32_t point = static_cast<uint32_t>(random() % 0x110000);
      if (point < 0xD800 || point >= 0xE000) AppendUtf8(point, &text);
    } else {
      text += kParts[random() % std::size(kParts)];
    }
  }
  return text;
}

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

// Merges the first added pair at its leftmost place, again and again.
std::vector<int32_t> SlowMerges(const std::vector<std::array<int32_t, 3>>& merges,
                                std::vector<int32_t> ids) {
  for (size_t m = 0; m < merges.size();) {
    size_t i = 0;
    while (i + 1 < ids.size() && (ids[i] != merges[m][0] || ids[i + 1] != merges[m][1])) ++i;
    if (i + 1 >= ids.size()) {
      ++m;
      continue;
    }
    ids[i] = merges[m][2];
    ids.erase(ids.begin() + static_cast<int64_t>(i) + 1);
    m = 0;
  }
  return ids;
}

TEST(BytePairMergesTest, EqualsMergingOnePairAtATime) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 200; ++round) {
    std::array<int32_t, 256> bytes{};
    for (int32_t b = 0; b < 256; ++b) bytes[static_cast<size_t>(b)] = b;
    BytePairMerges merges(bytes);
    std::vector<std::array<int32_t, 3>> list;
    std::vector<int32_t> symbols = {'a', 'b', 'c'};
    for (int32_t id = 256; id < 276; ++id) {
      const int32_t left = symbols[random() % symbols.size()];
      const int32_t right = symbols[random() % symbols.size()];
      const bool known = std::ranges::any_of(
          list, [&](const auto& merge) { return merge[0] == left && merge[1] == right; });
      if (known) continue;
      merges.Add(left, right, id);
      list.push_back({left, right, id});
      symbols.push_back(id);
    }
    std::string text;
    std::vector<int32_t> ids;
    for (auto n = random() % 120; n > 0; --n) {
      text.push_back(static_cast<char>('a' + random() % 3));
      ids.push_back(text.back());
    }
    std::vector<int32_t> encoded;
    merges.Encode(text, &encoded);
    ASSERT_EQ(encoded, SlowMerges(list, ids)) << text;
  }
}

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

// The normalizer of ICU, limited to the characters of Unicode 9.
std::string IcuNormalized(const icu::Normalizer2& latest, const std::string& text) {
  UErrorCode error = U_ZERO_ERROR;
  static const icu::UnicodeSet known(u"[:age=9.0:]", error);
  const icu::FilteredNormalizer2 filtered(latest, known);
  const icu::Normalizer2& normalizer = filtered;
  std::string result;
  normalizer.normalize(icu::UnicodeString::fromUTF8(text), error).toUTF8String(result);
  EXPECT_TRUE(U_SUCCESS(error)) << u_errorName(error);
  return result;
}

TEST(NormalizedTest, EqualsIcuWithTheCharactersOfUnicode9) {
  UErrorCode error = U_ZERO_ERROR;
  const std::vector<std::pair<NormalForm, const icu::Normalizer2*>> forms = {
      {NormalForm::kNfc, icu::Normalizer2::getNFCInstance(error)},
      {NormalForm::kNfd, icu::Normalizer2::getNFDInstance(error)},
      {NormalForm::kNfkc, icu::Normalizer2::getNFKCInstance(error)},
      {NormalForm::kNfkd, icu::Normalizer2::getNFKDInstance(error)}};
  std::mt19937_64 random(11);
  for (int i = 0; i < 1000; ++i) {
    std::string text = RandomPieces(random);
    for (const char* mark : {"\u0323", "\u0301", "\u0c3c", "\u0f71", "\u1161"}) {
      const size_t place = CharacterOffset(text, static_cast<int64_t>(random() % 24));
      if (random() % 3 == 0) text.insert(place, mark);
    }
    for (const auto& [form, icu] : forms) {
      std::string scratch;
      ASSERT_EQ(Normalized({&form, 1}, text, &scratch), IcuNormalized(*icu, text)) << text;
    }
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

TEST(ReadTokenizerFileTest, AnEmptyObjectStaysValidJson) {
  const CraftedFiles files;
  std::ofstream(files.directory() / "tokenizer.json") << "{}";
  std::ofstream(files.directory() / "tokenizer_config.json") << R"({"eos_token": "<end>"})";
  const auto read = ReadTokenizerFile(files.directory(), ReadFile);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->bytes, R"({"braid":{"eos_token":"<end>"}})");
  EXPECT_THAT(std::string(Tokenizer::Parse(read->bytes, "x/tokenizer.json").status().message()),
              testing::HasSubstr("model"));
}

TEST(ReadTokenizerFileTest, MakesOneFileOfSeveral) {
  const CraftedFiles files;
  const auto write = [&](const char* name, const std::string& text) {
    std::ofstream(files.directory() / name) << text;
  };
  json tiny = TinyTokenizer({});
  tiny["added_tokens"][0]["content"] = "<end>";
  write("tokenizer.json", tiny.dump());
  EXPECT_FALSE(Tokenizer::Load(files.directory() / "tokenizer.json").ok());
  write("tokenizer_config.json", R"({"eos_token": {"content": "<end>"}, "bos_token": null})");
  const auto read = ReadTokenizerFile(files.directory(), ReadFile);
  ASSERT_TRUE(read.ok()) << read.status();
  const auto tokenizer = Tokenizer::Parse(read->bytes, "stored");
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_EQ((*tokenizer)->Piece((*tokenizer)->eos_id()), "<end>");
  EXPECT_EQ(json::parse(ForOtherPrograms(read->bytes)), tiny);

  const json other = TinyTokenizer({});
  json vocab = other["model"]["vocab"];
  vocab["<|endoftext|>"] = vocab.size();
  std::string merges = "#version: 0.2\n";
  for (const json& merge : other["model"]["merges"]) {
    merges += merge[0].get<std::string>() + " " + merge[1].get<std::string>() + "\n";
  }
  write("vocab.json", vocab.dump());
  write("merges.txt", merges);
  const auto gpt2 = ReadTokenizerFile(files.directory() / "vocab.json", ReadFile);
  ASSERT_TRUE(gpt2.ok()) << gpt2.status();
  EXPECT_EQ((*Tokenizer::Parse(gpt2->bytes, "stored"))->Encode("the cat 12"),
            Parsed(other)->Encode("the cat 12"));

  write("merges.txt", absl::StrReplaceAll(merges, {{"\n", "\r\n"}}));
  EXPECT_EQ(ReadTokenizerFile(files.directory() / "vocab.json", ReadFile)->bytes, gpt2->bytes);
  write("merges.txt", merges + "t \xFF\n");
  const absl::Status status =
      ReadTokenizerFile(files.directory() / "vocab.json", ReadFile).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("merges.txt"), std::string::npos) << status;
}

// A line that is cut does not have two parts, or they make a word that the vocabulary does not have.
TEST(ReadTokenizerFileTest, CutMergesAreErrorsExceptAfterWholeLines) {
  const CraftedFiles files;
  const json tiny = TinyTokenizer({});
  json vocab = tiny["model"]["vocab"];
  vocab["<|endoftext|>"] = vocab.size();
  const std::string header = "#version: 0.2\n", merges = header + "q u\nqu i\n";
  vocab["qu"] = vocab.size();
  vocab["qui"] = vocab.size();
  std::ofstream(files.directory() / "vocab.json") << vocab.dump();
  for (size_t size = header.size(); size <= merges.size(); ++size) {
    std::ofstream(files.directory() / "merges.txt") << merges.substr(0, size);
    const auto read = ReadTokenizerFile(files.directory() / "vocab.json", ReadFile);
    const absl::Status status =
        read.ok() ? Tokenizer::Parse(read->bytes, "stored").status() : read.status();
    const bool whole = merges[size - 1] == '\n' || merges[size] == '\n';
    EXPECT_EQ(status.ok(), whole) << size << " " << status;
  }
}

TEST(WholeTextExpressionsTest, AreThoseThatLeaveNoTextBetweenMatches) {
  EXPECT_TRUE(PieceScanner::MatchesAllText(
      R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)"));
  for (const char* some : {R"(\p{N}{1,3})", R"(\p{L}+)", R"([0-9])"}) {
    EXPECT_FALSE(PieceScanner::MatchesAllText(some)) << some;
  }
}

}  // namespace byte_level_tokenizer_test
}  // namespace braid
