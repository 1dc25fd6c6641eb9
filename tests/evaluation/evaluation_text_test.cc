#include "evaluation/evaluation_text.h"

#include <fstream>
#include <numeric>
#include <string>
#include <vector>

#include "cli/corpus_documents.h"
#include "evaluation/token_bytes.h"
#include "formats/indexed_dataset.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/formats/tiny_tokenizer_json.h"
#include "tests/trainer/tiny_run.h"
#include "tests/trainer/tiny_text_run.h"

namespace braid {
namespace evaluation_text_test {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr char kSentence[] = "the cat sat on the mat and the dog ran after the cat. ";

class EvaluationTextTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { path_ = new fs::path(NewTokenizer(kSentence, 280)); }
  static void TearDownTestSuite() { delete path_; }

  EvaluationTextTest() : tokenizer_(*Tokenizer::Load(*path_)), directory_(NewDirectory("text")) {}

  fs::path Write(const std::string& name, const std::string& bytes) {
    fs::create_directories((directory_ / name).parent_path());
    std::ofstream(directory_ / name, std::ios::binary) << bytes;
    return directory_ / name;
  }

  absl::StatusOr<EvaluationText> Read(const std::vector<std::string>& paths,
                                      int64_t max_tokens = 0) {
    return TextOfFiles(paths, ReadCorpusDocuments, *tokenizer_, begin_with_bos_, max_tokens,
                       &summary_);
  }

  static fs::path* path_;
  std::unique_ptr<Tokenizer> tokenizer_;
  fs::path directory_;
  ReadSummary summary_;
  bool begin_with_bos_ = false;
};

// The same layout as in a dataset packed with tokenizer.begin_with_bos.
TEST_F(EvaluationTextTest, DocumentsBeginWithBosForModelsThatExpectIt) {
  const std::string path = Write("two.jsonl", "{\"text\":\"the cat\"}\n{\"text\":\"a dog\"}\n");
  begin_with_bos_ = true;
  const EvaluationText text = Read({path}).value();
  std::vector<int32_t> tokens;
  std::vector<int64_t> documents;
  for (const char* document : {"the cat", "a dog"}) {
    documents.push_back(std::ssize(tokens));
    tokens.push_back(tokenizer_->bos_id());
    for (const int32_t token : tokenizer_->Encode(document)) tokens.push_back(token);
    tokens.push_back(tokenizer_->eos_id());
  }
  EXPECT_EQ(text.domains.at(0).tokens, tokens);
  EXPECT_EQ(text.domains[0].documents, documents);
  EXPECT_EQ(text.domains[0].bytes[0], 0);
  EXPECT_EQ(std::accumulate(text.domains[0].bytes.begin(), text.domains[0].bytes.end(), 0), 12);
}

fs::path* EvaluationTextTest::path_ = nullptr;

TEST_F(EvaluationTextTest, BytesOfADocumentAreItsLength) {
  const TokenBytes table = MeasureTokens(*tokenizer_);
  for (const std::string text :
       {"the cat", "  the  cat ", "\nthe\n\n", "\t", " ", "naïve 日本語 🙂",
        "\xE2\x96\x81the", "a\xE2\x96\x81 b", "<0x0A> </s> <unk>", "Q", "123 4,5", ""}) {
    std::vector<int32_t> bytes;
    AppendBytes(table, tokenizer_->Encode(text), std::nullopt, &bytes);
    EXPECT_EQ(std::accumulate(bytes.begin(), bytes.end(), 0), static_cast<int>(text.size()))
        << '"' << text << '"';
  }
}

// The bytes of a token are those that it adds to the decoded text.
TEST_F(EvaluationTextTest, BytesOfATokenAreWhatItAddsToTheText) {
  const std::string text = "the dog ran. 12 mats\nand the  cat";
  const std::vector<int32_t> tokens = tokenizer_->Encode(text);
  std::vector<int32_t> bytes;
  AppendBytes(MeasureTokens(*tokenizer_), tokens, std::nullopt, &bytes);
  int64_t sum = 0;
  for (size_t i = 0; i < tokens.size(); ++i) {
    sum += bytes[i];
    EXPECT_EQ(sum, static_cast<int64_t>(tokenizer_->Decode({tokens.data(), i + 1}).size())) << i;
  }
}

// The vocabulary of such a tokenizer spells a space, a newline and a byte above 127 with two bytes.
TEST_F(EvaluationTextTest, BytesOfByteLevelTokensAreThoseOfTheTextNotOfTheSpelling) {
  nlohmann::json json = TinyTokenizer({});
  const auto control = static_cast<int32_t>(json["model"]["vocab"].size() + 1);
  json["added_tokens"].push_back({{"id", control}, {"content", "<|user|>"}, {"special", true}});
  const auto tokenizer = Tokenizer::Parse(json.dump(), "tokenizer.json").value();
  const TokenBytes table = MeasureTokens(*tokenizer);
  EXPECT_TRUE(table.takes_dummy_space.empty());
  ASSERT_EQ(std::ssize(table.of_token), tokenizer->vocab_size());
  EXPECT_EQ(table.of_token[tokenizer->FindPiece("\u0120the").value()], 4);
  EXPECT_EQ(table.of_token[tokenizer->eos_id()], 0);
  EXPECT_EQ(table.of_token[control], 0);
  for (int32_t byte = 0; byte < 256; ++byte) EXPECT_EQ(table.of_token[byte], 1) << byte;
  for (const std::string text : {" the  cat\n", "naïve 日", "\t<|user|>", ""}) {
    std::vector<int32_t> bytes;
    AppendBytes(table, tokenizer->Encode(text), std::nullopt, &bytes);
    EXPECT_EQ(std::accumulate(bytes.begin(), bytes.end(), 0), static_cast<int>(text.size()))
        << text;
  }
}

TEST_F(EvaluationTextTest, TextThatATokenizerRewritesKeepsItsLength) {
  TokenBytes table = MeasureTokens(*tokenizer_);
  const std::vector<int32_t> tokens = tokenizer_->Encode("the cat sat");
  std::vector<int32_t> bytes = {7};
  AppendBytes(table, tokens, 100, &bytes);
  EXPECT_EQ(std::accumulate(bytes.begin(), bytes.end(), 0), 107);
  for (int32_t of_token : bytes) EXPECT_GE(of_token, 0);
}

TEST_F(EvaluationTextTest, FilesAreDocumentsBetweenEos) {
  Write("books/one.txt", "the cat");
  Write("books/two.txt", "the dog ran");
  const fs::path records =
      Write("mixed.jsonl", "{\"text\":\"a mat\",\"domain\":\"own\"}\n{\"text\":\"sat\"}\n");
  const auto text = Read({(directory_ / "books").string(), records.string()});
  ASSERT_TRUE(text.ok()) << text.status();
  ASSERT_EQ(text->domains.size(), 3u);
  const std::vector<std::vector<std::string>> expected = {
      {"the cat", "the dog ran"}, {"a mat"}, {"sat"}};
  const std::vector<std::string> names = {"books", "own", "mixed"};
  for (size_t d = 0; d < 3; ++d) {
    std::vector<int32_t> tokens;
    int64_t length = 0;
    for (const std::string& document : expected[d]) {
      const auto ids = tokenizer_->Encode(document);
      tokens.insert(tokens.end(), ids.begin(), ids.end());
      tokens.push_back(tokenizer_->eos_id());
      length += static_cast<int64_t>(document.size());
    }
    const DomainText& domain = text->domains[d];
    EXPECT_EQ(domain.name, names[d]);
    EXPECT_EQ(domain.tokens, tokens);
    EXPECT_EQ(std::accumulate(domain.bytes.begin(), domain.bytes.end(), int64_t{0}), length);
  }
  EXPECT_EQ(summary_.num_documents, 4);
  EXPECT_EQ(summary_.num_rejected, 0);
}

TEST_F(EvaluationTextTest, WindowsPredictEveryTokenOnce) {
  const DomainText domain = {
      .name = "d", .tokens = {5, 6, 2, 7, 8, 9, 2}, .bytes = {}, .documents = {}};
  EXPECT_EQ(domain.num_windows(3), 3);
  EXPECT_EQ(domain.num_windows(7), 1);
  const Batch batch = LoadWindows(domain, 0, 3, 3, 2);
  EXPECT_THAT(batch.inputs, ElementsAre(2, 5, 6, 2, 7, 8, 9, 2, 2));
  EXPECT_THAT(batch.targets, ElementsAre(5, 6, 2, 7, 8, 9, 2, -1, -1));
  EXPECT_THAT(batch.lengths, ElementsAre(3, 3, 1));
  EXPECT_THAT(LoadWindows(domain, 1, 1, 3, 2).inputs, ElementsAre(2, 7, 8));
  EXPECT_EQ((DomainText{.name = "e", .tokens = {}, .bytes = {}, .documents = {}}.num_windows(3)),
            0);
}

// A dataset's windows hold one token more than they predict; joined they give the text.
TEST_F(EvaluationTextTest, HeldoutSplitIsTheTextOfItsDocuments) {
  const fs::path file = Write("even.jsonl",
                              "{\"text\":\"the cat sat on the mat and the dog ran\"}\n"
                              "{\"text\":\"12 naïve cats\\n\"}\n{\"text\":\" and  a mat after the "
                              "dog, which ran after the cat\"}\n");
  for (const bool begin_with_bos : {false, true}) {
    begin_with_bos_ = begin_with_bos;
    const fs::path dataset = NewTextDataset(*path_);
    const EvaluationText files = Read({file.string()}).value();
    const DomainText& expected = files.domains[0];
    auto writer = IndexedDatasetWriter::Create(dataset / "heldout/even", 280).value();
    for (size_t begin = 0; begin < expected.tokens.size(); begin += 33) {
      const size_t count = std::min<size_t>(33, expected.tokens.size() - begin);
      ASSERT_TRUE(writer->AddSequence(std::span(expected.tokens).subspan(begin, count)).ok());
      writer->EndDocument();
    }
    ASSERT_TRUE(writer->Commit().ok());
    const auto info = ReadDatasetInfo(dataset);
    const auto heldout = HeldoutText(dataset, *info, MeasureTokens(*tokenizer_), 0);
    ASSERT_TRUE(heldout.ok()) << heldout.status();
    EXPECT_EQ(heldout->domains[0].name, "even");
    EXPECT_EQ(heldout->domains[0].tokens, expected.tokens);
    EXPECT_EQ(heldout->domains[0].bytes, expected.bytes);
    const auto some = HeldoutText(dataset, *info, MeasureTokens(*tokenizer_), 40);
    EXPECT_EQ(some->domains[0].tokens.size(), 40u);
    EXPECT_EQ(some->domains[0].bytes.size(), 40u);
  }
}

TEST_F(EvaluationTextTest, LimitHoldsForEachDomain) {
  const fs::path a = Write("a.txt", kSentence), b = Write("b.txt", kSentence);
  const auto text = Read({a.string(), b.string()}, 10);
  ASSERT_TRUE(text.ok()) << text.status();
  for (const DomainText& domain : text->domains) {
    EXPECT_EQ(domain.tokens.size(), 10u);
    EXPECT_EQ(domain.bytes.size(), 10u);
  }
}

TEST_F(EvaluationTextTest, ErrorsNameWhatCannotBeRead) {
  Write("mixed/empty.txt", "");
  Write("mixed/latin.txt", "caf\xe9");
  Write("mixed/good.txt", "the cat");
  const auto text = Read({(directory_ / "mixed").string()});
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_EQ(summary_.num_documents, 1);
  EXPECT_EQ(summary_.num_rejected, 2);
  ASSERT_EQ(summary_.rejected.size(), 2u);
  EXPECT_THAT(summary_.rejected[0], AllOf(HasSubstr("empty.txt, byte 0"), HasSubstr("empty")));
  EXPECT_THAT(summary_.rejected[1], HasSubstr("latin.txt, byte 0: invalid utf-8"));

  fs::create_directory(directory_ / "nothing");
  for (const std::string path : {"mixed/empty.txt", "mixed/latin.txt", "nothing", "absent.txt"}) {
    const absl::Status status = Read({(directory_ / path).string()}).status();
    EXPECT_FALSE(status.ok()) << path;
    EXPECT_THAT(std::string(status.message()), HasSubstr(path)) << status;
  }
}

// An evaluation has no options for the settings of ingest.
TEST_F(EvaluationTextTest, ErrorsNameNoSettingsOfCorpusJobs) {
  const auto refused = [&](const fs::path& path) {
    return std::string(Read({path.string()}).status().message());
  };
  EXPECT_THAT(refused(Write("body.jsonl", "{\"body\": \"the cat\"}\n")),
              AllOf(HasSubstr("got the fields \"body\""), Not(HasSubstr("ingest.")),
                    HasSubstr("; rename the field that holds the text to \"text\"")));
  EXPECT_THAT(refused(Write("txt.jsonl", "{\"id\": \"1\", \"txt\": \"the cat\"}\n")),
              AllOf(Not(HasSubstr("ingest.")), HasSubstr("; rename \"txt\" to \"text\"")));
  EXPECT_THAT(refused(Write("bad.jsonl", "{bad\n")),
              AllOf(HasSubstr("1 invalid json"), Not(HasSubstr("ingest.")),
                    Not(HasSubstr("--strict")), HasSubstr("docs/corpus.md")));
  const fs::path tokens = directory_ / "tokens";
  auto writer = IndexedDatasetWriter::Create(tokens, 280).value();
  ASSERT_TRUE(writer->AddSequence(std::vector<int32_t>{5, 6, 7}).ok());
  writer->EndDocument();
  ASSERT_TRUE(writer->Commit().ok());
  EXPECT_THAT(
      refused(tokens.string() + ".bin"),
      AllOf(HasSubstr("tokens.bin: got an indexed dataset"), Not(HasSubstr("--tokenizer"))));
}

}  // namespace evaluation_text_test
}  // namespace braid
