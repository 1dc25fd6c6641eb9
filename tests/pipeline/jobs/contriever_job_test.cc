// Jobs whose documents are embedded by a model: a BERT encoder in braid-embedder, or static
// vectors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "formats/npy.h"
#include "formats/weight_files.h"
#include "pipeline/corpus/corpus_spec.h"
#include "pipeline/jobs/job_runner.h"
#include "pipeline/store/document_store.h"
#include "pipeline/store/stage_store.h"
#include "retrieval/contriever_process.h"
#include "retrieval/embedding_service.h"
#include "retrieval/static_embedder.h"
#include "tests/base/scratch_directory.h"
#include "tests/base/status_matchers.h"
#include "tests/pipeline/jobs/finished_job.h"
#include "tests/pipeline/jobs/generated_corpus.h"
#include "tests/retrieval/retrieval_server.h"
#include "tests/retrieval/tiny_bert.h"

namespace braid {
namespace contriever_job_test {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::IsEmpty;

class ContrieverJobTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    setenv("BRAID_EMBEDDER_PROGRAM", BRAID_EMBEDDER, 1);
    corpus_ = new fs::path(NewDirectory() / "tiny.jsonl");
    model_ = new fs::path(NewDirectory() / "bert");
    WriteCorpus(*corpus_);
    WriteTinyBert(Bert(), *model_);
  }
  static void TearDownTestSuite() {
    delete corpus_;
    delete model_;
  }

  // Large enough for some of the documents, but not for all of them.
  static TinyBert Bert() {
    TinyBert bert;
    bert.config.max_position_embeddings = 300;
    return bert;
  }
  static v1::CorpusSpec Spec() {
    v1::CorpusSpec spec = SmallSpec(*corpus_);
    spec.mutable_embedder()->Clear();
    spec.mutable_embedder()->set_kind("contriever");
    spec.mutable_embedder()->set_model_dir(model_->string());
    spec.set_num_threads(1);
    return spec;
  }

  static inline fs::path* corpus_ = nullptr;
  static inline fs::path* model_ = nullptr;
};

TEST_F(ContrieverJobTest, StoresTheVectorsOfTheEmbedderAndCountsTruncatedDocuments) {
  Home home;
  ASSERT_OK_AND_ASSIGN(const v1::JobResult result, home.Run(Spec()));
  EXPECT_GE(result.num_documents_read(), 200);
  ASSERT_OK_AND_ASSIGN(const auto documents, DocumentStore::Open(home.StageDirectory("ingest")));
  ASSERT_OK_AND_ASSIGN(const auto embedder,
                       ContrieverProcess::Start({.directory = *model_, .num_threads = 1}));
  std::vector<float> expected(static_cast<size_t>(documents.size() * embedder->dimension()));
  ASSERT_OK_AND_ASSIGN(const int64_t num_cut,
                       embedder->EmbedAndCountCut(documents.Texts(0, documents.size()), expected));
  ASSERT_OK_AND_ASSIGN(const auto stored,
                       NpyArray<float>::Open(home.StageDirectory("embed") / "embeddings.npy"));
  ASSERT_EQ(stored.values().size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    ASSERT_NEAR(stored.values()[i], expected[i], 1e-5) << i;
  }
  EXPECT_EQ(result.num_truncated(), num_cut);
  EXPECT_GT(result.num_truncated(), 0) << "the test needs truncated documents";
  EXPECT_LT(result.num_truncated(), documents.size());
}

TEST_F(ContrieverJobTest, GivesTheSameVectorsThroughServersAndLocally) {
  Home own, remote;
  ASSERT_OK_AND_ASSIGN(const v1::JobResult expected, own.Run(Spec()));
  ASSERT_OK_AND_ASSIGN(std::shared_ptr<const Embedder> embedder,
                       ContrieverProcess::Start({.directory = *model_, .num_threads = 1}));
  LocalServer first(MakeEmbeddingService(embedder)), second(MakeEmbeddingService(embedder));
  v1::CorpusSpec spec = Spec();
  *spec.mutable_embedder() = {};
  spec.mutable_embedder()->set_kind("remote");
  spec.mutable_embedder()->add_addresses(first.address());
  spec.mutable_embedder()->add_addresses(second.address());
  ASSERT_OK_AND_ASSIGN(const v1::JobResult result, remote.Run(spec));
  EXPECT_EQ(result.num_truncated(), expected.num_truncated());
  EXPECT_GT(result.num_truncated(), 0);
  const auto vectors = [](const Home& home) {
    return GetFile(home.StageDirectory("embed") / "embeddings.npy");
  };
  EXPECT_TRUE(vectors(remote) == vectors(own)) << "the batches are the same";
}

TEST_F(ContrieverJobTest, ReusesVectorsByTheContentOfTheModel) {
  Home home;
  ASSERT_OK_AND_ASSIGN(const v1::JobResult first, home.Run(Spec()));
  const fs::path copy = NewDirectory() / "elsewhere";
  fs::copy(*model_, copy);
  v1::CorpusSpec spec = Spec();
  spec.mutable_embedder()->set_model_dir(copy.string());
  ASSERT_OK_AND_ASSIGN(const v1::JobResult again, home.Run(spec));
  EXPECT_THAT(home.made(), IsEmpty());
  EXPECT_EQ(again.num_truncated(), first.num_truncated());
  TinyBert other = Bert();
  other.seed = 2;
  WriteTinyBert(other, copy);
  ASSERT_OK(home.Run(spec));
  EXPECT_THAT(home.reused(), ElementsAre("ingest", "tokenize"));
}

TEST_F(ContrieverJobTest, ResumesAfterTheLastChunkToTheSameBytes) {
  Home whole;
  const fs::path root = NewDirectory();
  ASSERT_OK(whole.Run(Spec()));
  ASSERT_OK_AND_ASSIGN(const v1::CorpusSpec resolved, ResolveCorpusSpec(Spec()));
  StageStore store(root / "store", {.chunk_bytes = 64 * 3000});
  // Stopped after the first batch of 64 documents, then after the third.
  for (const int64_t stop_at : {64, 192}) {
    std::vector<int64_t> done;
    JobHooks hooks;
    hooks.report = [&](const v1::StageProgress& progress) {
      if (progress.stage() == "embed" && progress.total() > 0) done.push_back(progress.done());
    };
    hooks.stop = [&] { return !done.empty() && done.back() >= stop_at; };
    EXPECT_FAILS(RunJob(resolved, &store, hooks), absl::StatusCode::kCancelled);
    ASSERT_FALSE(done.empty());
    EXPECT_EQ(done.front(), stop_at == 64 ? 0 : 64) << "documents are embedded once";
  }
  Home home(root);
  ASSERT_OK_AND_ASSIGN(const v1::JobResult result, home.Run(Spec()));
  EXPECT_EQ(home.Contents(), whole.Contents());
  EXPECT_GT(result.num_truncated(), 0);
}

TEST_F(ContrieverJobTest, PrefixIsAnotherEmbedder) {
  Home home;
  ASSERT_OK(home.Run(Spec()));
  v1::CorpusSpec spec = Spec();
  spec.mutable_embedder()->set_text_prefix("passage: ");
  ASSERT_OK(home.Run(spec));
  EXPECT_THAT(home.reused(), ElementsAre("ingest", "tokenize"));
}

TEST_F(ContrieverJobTest, StoresTheVectorsOfStaticEmbeddings) {
  const fs::path model = NewDirectory();
  PutFile(model / "tokenizer.json",
          R"({"normalizer": {"type": "BertNormalizer", "lowercase": true},
              "pre_tokenizer": {"type": "BertPreTokenizer"},
              "model": {"unk_token": "[UNK]", "vocab": {"[UNK]": 0, ".": 1, "ba": 2, "##ba": 3,
                "##de": 4, "##ki": 5, "##lo": 6, "de": 7, "ki": 8, "end": 9, "lo": 10}}})");
  const std::vector<float> table = {9, 9, 0, 1, 1, 0, 2,  1, -1, 3, 1,
                                    1, 0, 2, 3, 0, 1, -2, 2, 2,  1, 3};
  ASSERT_OK(WriteWeightFiles(
      model, {.tensors = {{"embeddings", DType::kF32, {11, 2}}},
              .values = [&](const TensorInfo&) -> absl::StatusOr<std::span<const float>> {
                return std::span<const float>(table);
              },
              .max_file_bytes = int64_t{1} << 30}));
  v1::CorpusSpec spec = Spec();
  spec.mutable_embedder()->set_kind("static");
  spec.mutable_embedder()->set_model_dir(model.string());
  Home home;
  ASSERT_OK(home.Run(spec));
  ASSERT_OK_AND_ASSIGN(const auto documents, DocumentStore::Open(home.StageDirectory("ingest")));
  ASSERT_OK_AND_ASSIGN(const auto embedder, StaticEmbedder::Load({.directory = model}));
  std::vector<float> expected(static_cast<size_t>(documents.size()) * 2);
  ASSERT_OK(embedder->Embed(documents.Texts(0, documents.size()), expected));
  ASSERT_OK_AND_ASSIGN(const auto stored,
                       NpyArray<float>::Open(home.StageDirectory("embed") / "embeddings.npy"));
  EXPECT_TRUE(std::ranges::equal(stored.values(), expected));
}

TEST_F(ContrieverJobTest, ReportsAnInvalidModel) {
  v1::CorpusSpec spec = Spec();
  spec.mutable_embedder()->set_model_dir("/nowhere/bert");
  EXPECT_FAILS(Home().Run(spec), absl::StatusCode::kNotFound, "embed", "/nowhere/bert/config.json");
  spec = Spec();
  spec.mutable_embedder()->set_max_tokens(301);
  EXPECT_FAILS(Home().Run(spec), absl::StatusCode::kInvalidArgument, "embed", "max_tokens", "300");
}

}  // namespace contriever_job_test
}  // namespace braid
