// Jobs on Megatron-LM indexed datasets: tokens are kept, and text is what they decode to.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "base/atomic_file.h"
#include "base/path_roots.h"
#include "formats/indexed_dataset.h"
#include "formats/tokenizer.h"
#include "pipeline/corpus/corpus_files.h"
#include "pipeline/corpus/corpus_reader.h"
#include "pipeline/corpus/corpus_spec.h"
#include "pipeline/stages/ingest_stage.h"
#include "pipeline/store/document_store.h"
#include "tests/base/status_matchers.h"
#include "tests/formats/tiny_tokenizer_json.h"
#include "tests/pipeline/jobs/finished_job.h"

namespace braid {
namespace token_files_test {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using Sequences = std::vector<std::vector<int32_t>>;

class TokenFilesTest : public FinishedJobTest {
 protected:
  static fs::path TokenizerPath() {
    return finished_home().StageDirectory("tokenize") / "tokenizer.model";
  }

  // Writes the documents of the finished job, in two sequences each and ended by EOS, with their
  // first character as byte tokens, as this tokenizer never encodes it. Returns the tokens that are
  // to be kept.
  static Sequences Write(const fs::path& prefix, int32_t shift = 0) {
    const auto documents = DocumentStore::Open(finished_home().StageDirectory("ingest")).value();
    const auto tokenizer = Tokenizer::Load(TokenizerPath()).value();
    const auto writer = IndexedDatasetWriter::Create(prefix, 100000).value();
    Sequences kept;
    for (int64_t i = 0; i < documents.size(); ++i) {
      const std::string text(documents.text(i));
      std::vector<int32_t> tokens = {3 + static_cast<unsigned char>(text.front())};
      const std::vector<int32_t> rest = tokenizer->Encode(text.substr(1));
      EXPECT_TRUE(writer->AddSequence(tokens).ok());
      tokens.insert(tokens.end(), rest.begin(), rest.end());
      kept.push_back(tokens);
      std::vector<int32_t> ended = rest;
      ended.push_back(tokenizer->eos_id());
      for (int32_t& token : ended) token += shift;
      EXPECT_TRUE(writer->AddSequence(ended).ok());
      writer->EndDocument();
    }
    EXPECT_TRUE(writer->Commit().ok());
    return kept;
  }

  static v1::CorpusSpec TokenSpec(const fs::path& path) {
    v1::CorpusSpec spec = SmallSpec(path);
    spec.mutable_tokenizer()->Clear();
    spec.mutable_tokenizer()->set_model_path(TokenizerPath().string());
    return spec;
  }
};

TEST_F(TokenFilesTest, TokensAreKeptAndTextIsWhatTheyDecodeTo) {
  const fs::path prefix = NewDirectory() / "web_text_document";
  const Sequences kept = Write(prefix);
  Home home;
  ASSERT_OK_AND_ASSIGN(const v1::JobResult result, home.Run(TokenSpec(TokensPath(prefix))));
  EXPECT_EQ(result.num_rejected(), 0);
  ASSERT_OK_AND_ASSIGN(const auto tokens,
                       IndexedDataset::Open(home.StageDirectory("tokenize") / "tokens"));
  ASSERT_EQ(tokens.num_sequences(), std::ssize(kept));
  const auto documents = DocumentStore::Open(home.StageDirectory("ingest")).value();
  const auto tokenizer = Tokenizer::Load(TokenizerPath()).value();
  for (int64_t i = 0; i < tokens.num_sequences(); ++i) {
    ASSERT_EQ(tokens.Read(i), kept[static_cast<size_t>(i)]) << i;
    ASSERT_EQ(documents.text(i), tokenizer->Decode(kept[static_cast<size_t>(i)])) << i;
    ASSERT_NE(tokenizer->Encode(documents.text(i)), kept[static_cast<size_t>(i)]) << i;
  }
  EXPECT_EQ(documents.id(7), "web_text_document.bin:7");
  EXPECT_EQ(documents.domain_names(), std::vector<std::string>{"web_text_document"});
}

TEST_F(TokenFilesTest, AJobThatIsStoppedAtAnyReportEndsWithTheSameBytes) {
  const fs::path prefix = NewDirectory() / "text";
  Write(prefix);
  const StageOptions options{.chunk_bytes = 4096};
  Home whole(NewDirectory(), options);
  ASSERT_OK(whole.Run(TokenSpec(TokensPath(prefix))).status());
  Home stopped(NewDirectory(), options);
  for (int report = 2;; ++report) {
    stopped.StopAtReport(report);
    if (stopped.Run(TokenSpec(TokensPath(prefix))).ok()) break;
    ASSERT_LT(report, 1000);
  }
  EXPECT_EQ(stopped.Contents(), whole.Contents());
}

TEST_F(TokenFilesTest, ADatasetIsNamedByEitherFileOrItsPrefixOrItsDirectory) {
  const fs::path directory = NewDirectory();
  const fs::path prefix = directory / "text";
  Write(prefix);
  const std::vector<std::vector<std::string>> names = {{TokensPath(prefix).string()},
                                                       {IndexPath(prefix).string()},
                                                       {prefix.string()},
                                                       {directory.string()},
                                                       {TokensPath(prefix), IndexPath(prefix)}};
  for (const auto& paths : names) {
    ASSERT_OK_AND_ASSIGN(const CorpusFiles found, FindCorpusFiles(paths));
    ASSERT_EQ(found.files.size(), 1) << paths[0];
    EXPECT_EQ(found.files[0].path, TokensPath(prefix));
    EXPECT_EQ(found.files[0].kind, CorpusFileKind::kTokens);
  }
}

TEST_F(TokenFilesTest, FilesOfSeveralDatasetsAreNamedInAnyOrder) {
  const fs::path directory = NewDirectory();
  const fs::path a = directory / "a", b = directory / "b";
  Write(a);
  Write(b);
  const std::vector<std::string> paths = {TokensPath(a), TokensPath(b), IndexPath(a), IndexPath(b)};
  ASSERT_OK_AND_ASSIGN(const CorpusFiles found, FindCorpusFiles(paths));
  ASSERT_EQ(found.files.size(), 2);
  EXPECT_EQ(found.files[0].name, "a.bin");
  EXPECT_EQ(found.files[1].name, "b.bin");
}

TEST_F(TokenFilesTest, AnotherIndexOrTokenizerIsAnotherCorpus) {
  const fs::path prefix = NewDirectory() / "text";
  Write(prefix);
  Home home;
  ASSERT_OK(home.Run(TokenSpec(TokensPath(prefix))).status());
  ASSERT_OK(home.Run(TokenSpec(TokensPath(prefix))).status());
  EXPECT_TRUE(home.made().empty());
  fs::last_write_time(IndexPath(prefix), fs::file_time_type::clock::now() + std::chrono::hours(1));
  ASSERT_OK(home.Run(TokenSpec(TokensPath(prefix))).status());
  EXPECT_EQ(home.made().front(), "ingest");
}

TEST_F(TokenFilesTest, TheKeyDependsOnTheEndTokenBesideTheTokenizer) {
  const fs::path directory = NewDirectory();
  Write(directory / "text");
  ASSERT_OK(WriteFileAtomically(directory / "tokenizer.json", TinyTokenizerJson({})));
  v1::CorpusSpec spec = TokenSpec(TokensPath(directory / "text"));
  spec.mutable_tokenizer()->set_model_path((directory / "tokenizer.json").string());
  const auto key = [&] { return IngestKey(ResolveCorpusSpec(spec).value()).value(); };
  const std::string before = key();
  ASSERT_OK(WriteFileAtomically(directory / "tokenizer_config.json", R"({"eos_token": "a"})"));
  EXPECT_NE(key(), before);
}

TEST_F(TokenFilesTest, AFileThatIsCutOffWhileItIsReadIsAnError) {
  const fs::path prefix = NewDirectory() / "text";
  Write(prefix);
  const std::vector<std::string> paths = {TokensPath(prefix)};
  for (const uintmax_t bytes : {uintmax_t{0}, fs::file_size(TokensPath(prefix)) / 2}) {
    Write(prefix);
    const auto reader = CorpusReader::Open(paths, {}, {}, TokenizerPath()).value();
    Document document;
    std::vector<Reject> rejects;
    ASSERT_EQ(reader->Next(&document, &rejects).value(), CorpusStep::kDocument);
    fs::resize_file(TokensPath(prefix), bytes);
    absl::StatusOr<CorpusStep> step = CorpusStep::kDocument;
    while (step.ok() && *step == CorpusStep::kDocument) step = reader->Next(&document, &rejects);
    EXPECT_FAILS(step, absl::StatusCode::kFailedPrecondition, "text.bin",
                 "changed while it was read");
  }
}

TEST_F(TokenFilesTest, RefusesLinksThatLeadOutOfTheServedDirectories) {
  const fs::path outside = NewDirectory() / "text", served = NewDirectory() / "text";
  Write(outside);
  Write(served);
  const auto linked = served.parent_path() / "linked";
  fs::create_symlink(TokensPath(outside), TokensPath(linked));
  fs::create_symlink(IndexPath(outside), IndexPath(linked));
  const absl::Cleanup serve_all = [] { SetClientRoots(PathRoots()); };
  SetClientRoots(
      PathRoots::Create({served.parent_path(), TokenizerPath().parent_path()}, "").value());
  Home home;
  EXPECT_OK(home.Run(TokenSpec(TokensPath(served))).status());
  EXPECT_EQ(home.Run(TokenSpec(TokensPath(linked))).status().code(),
            absl::StatusCode::kPermissionDenied);
}

TEST_F(TokenFilesTest, RefusesWhatItCannotReadAndSaysWhatToDo) {
  const fs::path directory = NewDirectory();
  const fs::path prefix = directory / "text";
  Write(prefix);
  const auto message = [](const v1::CorpusSpec& spec) {
    Home home;
    return std::string(home.Run(spec).status().message());
  };
  v1::CorpusSpec without = TokenSpec(TokensPath(prefix));
  without.mutable_tokenizer()->Clear();
  EXPECT_THAT(message(without), AllOf(HasSubstr("text.bin"), HasSubstr("--tokenizer")));
  v1::CorpusSpec mixed = TokenSpec(TokensPath(prefix));
  mixed.add_paths(Corpus().string());
  EXPECT_THAT(message(mixed), AllOf(HasSubstr("text.bin"), HasSubstr("another job")));
  v1::CorpusSpec split = TokenSpec(TokensPath(prefix));
  split.mutable_ingest()->set_split_bytes(1000);
  EXPECT_THAT(message(split), HasSubstr("ingest.split_bytes"));
  const fs::path strange = directory / "strange";
  Write(strange, 50000);
  EXPECT_THAT(message(TokenSpec(TokensPath(strange))),
              AllOf(HasSubstr("strange.bin, document 0"), HasSubstr("expected 0 to 399")));
  const fs::path rejected = directory / "rejected";
  const auto writer = IndexedDatasetWriter::Create(rejected, 100000).value();
  for (const std::vector<int32_t>& tokens : Sequences{{100, 101}, {}}) {
    ASSERT_OK(writer->AddSequence(tokens));
    writer->EndDocument();
  }
  ASSERT_OK(writer->Commit().status());
  v1::CorpusSpec strict = TokenSpec(TokensPath(rejected));
  strict.mutable_ingest()->set_strict(true);
  EXPECT_THAT(message(strict), HasSubstr("rejected.bin, document 1: empty"));
  fs::resize_file(IndexPath(prefix), 40);
  EXPECT_THAT(message(TokenSpec(TokensPath(prefix))), HasSubstr("1 damaged"));
}

}  // namespace token_files_test
}  // namespace braid
