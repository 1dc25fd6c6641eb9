#include "pipeline/jobs/job_explanation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "braid/v1/pipeline.pb.h"
#include "pipeline/corpus/corpus_spec.h"
#include "pipeline/jobs/job_runner.h"
#include "tests/pipeline/jobs/generated_corpus.h"

namespace braid {
namespace job_explanation_test {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

std::string WithoutSpaces(std::string text) {
  std::erase_if(text, [](char c) { return c == ' ' || c == '\n'; });
  return text;
}

class JobExplanationTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    root_ = new fs::path(NewDirectory());
    store_ = new StageStore(*root_ / "store");
    WriteCorpus(Corpus());
    job_ = new v1::Job(RunJobOf(SmallSpec(Corpus())));
    auto explanation = JobExplanation::Open(*job_, *store_);
    ASSERT_TRUE(explanation.ok()) << explanation.status();
    explanation_ = new JobExplanation(*std::move(explanation));
  }
  static void TearDownTestSuite() {
    delete explanation_;
    delete job_;
    delete store_;
    delete root_;
  }

  static fs::path Corpus() { return *root_ / "tiny.jsonl"; }

  // The job as the service returns it.
  static v1::Job RunJobOf(const v1::CorpusSpec& spec) {
    v1::Job job;
    job.set_id("job-000001");
    *job.mutable_spec() = *ResolveCorpusSpec(spec);
    JobHooks hooks;
    hooks.report = [&](const v1::StageProgress& progress) {
      if (progress.complete()) *job.add_stages() = progress;
    };
    hooks.stop = [] { return false; };
    auto result = RunJob(job.spec(), store_, hooks);
    EXPECT_TRUE(result.ok()) << result.status();
    *job.mutable_result() = *std::move(result);
    job.set_state(v1::JOB_SUCCEEDED);
    return job;
  }

  static v1::ExplainDocumentResponse Document(const std::string& id, int64_t excerpt_bytes = 0) {
    const auto document = explanation_->Document(id, excerpt_bytes);
    EXPECT_TRUE(document.ok()) << document.status();
    return document.value_or(v1::ExplainDocumentResponse());
  }
  static std::vector<v1::InstanceExplanation> Instances(int64_t excerpt_bytes = 0) {
    std::vector<v1::InstanceExplanation> instances;
    for (int64_t i = 0; i < job_->result().num_instances(); ++i) {
      const auto instance = explanation_->Instance(i, excerpt_bytes);
      EXPECT_TRUE(instance.ok()) << instance.status();
      instances.push_back(*instance);
    }
    return instances;
  }
  static std::vector<std::string> AllIds() {
    std::vector<std::string> ids;
    for (int i = 0; i < GeneratedCorpus::kUnique; ++i) ids.push_back("doc-" + std::to_string(i));
    for (int i = 0; i < GeneratedCorpus::kDuplicates; ++i) {
      ids.push_back("copy-" + std::to_string(i));
    }
    return ids;
  }

  static fs::path* root_;
  static StageStore* store_;
  static v1::Job* job_;
  static JobExplanation* explanation_;
};

fs::path* JobExplanationTest::root_ = nullptr;
StageStore* JobExplanationTest::store_ = nullptr;
v1::Job* JobExplanationTest::job_ = nullptr;
JobExplanation* JobExplanationTest::explanation_ = nullptr;

using Span = std::tuple<int64_t, int64_t, std::string, int64_t, int64_t>;

Span Key(const v1::DocumentSpan& span) {
  return {span.instance(), span.instance_offset(), span.document(), span.document_offset(),
          span.length()};
}

TEST_F(JobExplanationTest, BothDirectionsAgreeForEveryInstanceAndDocument) {
  std::set<Span> of_instances, of_documents;
  for (const v1::InstanceExplanation& instance : Instances()) {
    for (const v1::DocumentSpan& span : instance.spans()) of_instances.insert(Key(span));
  }
  for (const std::string& id : AllIds()) {
    const v1::ExplainDocumentResponse document = Document(id);
    for (const v1::DocumentSpan& span : document.spans()) {
      EXPECT_EQ(span.document(), id);
      of_documents.insert(Key(span));
    }
  }
  EXPECT_EQ(of_instances, of_documents);
  EXPECT_GE(static_cast<int64_t>(of_instances.size()), job_->result().num_documents());
}

TEST_F(JobExplanationTest, SpansCoverInstancesAndDocumentsWithoutGap) {
  int64_t num_tokens = 0;
  for (const v1::InstanceExplanation& instance : Instances()) {
    int64_t at = 0;
    for (const v1::DocumentSpan& span : instance.spans()) {
      EXPECT_EQ(span.instance_offset(), at);
      at += span.length();
    }
    EXPECT_EQ(at, instance.num_tokens());
    num_tokens += at;
  }
  EXPECT_EQ(num_tokens, job_->result().num_tokens());
  for (const std::string& id : AllIds()) {
    const v1::ExplainDocumentResponse document = Document(id);
    int64_t at = 0;
    for (const v1::DocumentSpan& span : document.spans()) {
      EXPECT_EQ(span.document_offset(), at);
      at += span.length();
    }
    EXPECT_EQ(at, document.spans().empty() ? 0 : document.num_tokens() + 1) << "with EOS";
  }
}

TEST_F(JobExplanationTest, FatesAddUpToTheResult) {
  std::map<v1::DocumentFate, int64_t> fates;
  for (const std::string& id : AllIds()) {
    const v1::ExplainDocumentResponse document = Document(id);
    ++fates[document.fate()];
    EXPECT_EQ(document.fate() == v1::DOCUMENT_TRAINED_ON, !document.spans().empty()) << id;
  }
  const v1::JobResult& result = job_->result();
  EXPECT_EQ(fates[v1::DOCUMENT_TRAINED_ON], result.num_documents());
  EXPECT_EQ(fates[v1::DOCUMENT_DUPLICATE], result.num_duplicates());
  EXPECT_EQ(fates[v1::DOCUMENT_HELD_OUT], result.num_heldout());
  EXPECT_EQ(fates[v1::DOCUMENT_OVERLAPS_HELD_OUT], result.num_heldout_overlaps());
}

TEST_F(JobExplanationTest, ReturnsTheTextOfASpan) {
  std::map<std::string, std::string> texts;  // by document, of its spans in order
  for (const std::string& id : AllIds()) {
    const v1::ExplainDocumentResponse document = Document(id, 1 << 20);
    if (document.fate() != v1::DOCUMENT_TRAINED_ON) continue;
    std::string joined;
    for (const v1::DocumentSpan& span : document.spans()) joined += span.excerpt();
    EXPECT_EQ(WithoutSpaces(joined), WithoutSpaces(document.excerpt())) << id;
    EXPECT_EQ(static_cast<int64_t>(document.excerpt().size()), document.num_bytes());
  }
  for (const v1::InstanceExplanation& instance : Instances(10)) {
    for (const v1::DocumentSpan& span : instance.spans()) {
      EXPECT_LE(span.excerpt().size(), 10u);
      EXPECT_THAT(Document(span.document(), 1 << 20).excerpt(), HasSubstr(span.excerpt()));
      EXPECT_EQ(span.source_file(), Corpus().string()) << "the only input file";
      EXPECT_THAT(span.domain(), testing::AnyOf("code", "law", "prose"));
    }
  }
  EXPECT_EQ(Instances(0)[0].spans(0).excerpt(), "");
}

TEST_F(JobExplanationTest, ComparesADocumentWithTheOneBeforeIt) {
  double sum = 0;
  int count = 0;
  for (const v1::InstanceExplanation& instance : Instances()) {
    for (int i = 0; i < instance.spans_size(); ++i) {
      EXPECT_EQ(instance.spans(i).has_similarity_to_previous(), i > 0);
      if (i == 0) continue;
      sum += instance.spans(i).similarity_to_previous();
      ++count;
    }
  }
  EXPECT_GT(sum / count, job_->result().random_adjacent_cosine());
}

TEST_F(JobExplanationTest, ReturnsTheOriginalOfADuplicate) {
  const v1::ExplainDocumentResponse copy = Document("copy-1");
  EXPECT_EQ(copy.fate(), v1::DOCUMENT_DUPLICATE);
  EXPECT_EQ(copy.counterpart(), "doc-9");
  EXPECT_TRUE(copy.exact());
  EXPECT_NEAR(copy.cosine(), 1, 1e-6);
  EXPECT_EQ(copy.jaccard(), 1);
  const v1::ExplainDocumentResponse near = Document("copy-2");
  EXPECT_EQ(near.fate(), v1::DOCUMENT_DUPLICATE);
  EXPECT_EQ(near.counterpart(), "doc-18");
  EXPECT_FALSE(near.exact());
  EXPECT_GT(near.jaccard(), 0.8);
  EXPECT_LT(near.jaccard(), 1);
}

TEST_F(JobExplanationTest, ReturnsTheReasonOfAReject) {
  std::ifstream corpus(Corpus());
  std::string line;
  int64_t offset = 0;
  std::map<std::string, std::string> reasons;
  while (std::getline(corpus, line)) {
    const std::string id = Corpus().filename().string() + ":" + std::to_string(offset);
    const auto document = explanation_->Document(id, 0);
    if (document.ok()) {
      EXPECT_EQ(document->fate(), v1::DOCUMENT_REJECTED);
      reasons[id] = document->reject_reason();
    }
    offset += static_cast<int64_t>(line.size()) + 1;
  }
  EXPECT_EQ(static_cast<int64_t>(reasons.size()), GeneratedCorpus::kRejects);
}

TEST_F(JobExplanationTest, FindsARejectByItsId) {
  const fs::path corpus = *root_ / "named.jsonl";
  {
    std::ifstream from(Corpus());
    std::ofstream to(corpus);
    to << from.rdbuf() << R"({"id": "e1", "text": ""})"
       << "\n"
       << R"({"id": "e2", "body": "no text field"})"
       << "\n";
  }
  const v1::Job job = RunJobOf(SmallSpec(corpus));
  const auto explanation = JobExplanation::Open(job, *store_);
  ASSERT_TRUE(explanation.ok()) << explanation.status();
  for (const char* id : {"e1", "e2"}) {
    const auto reject = explanation->Document(id, 0);
    ASSERT_TRUE(reject.ok()) << reject.status();
    EXPECT_EQ(reject->fate(), v1::DOCUMENT_REJECTED);
    EXPECT_EQ(reject->source_file(), corpus.string());
    const auto by_offset =
        explanation->Document("named.jsonl:" + std::to_string(reject->reject_offset()), 0);
    ASSERT_TRUE(by_offset.ok()) << by_offset.status();
    EXPECT_EQ(by_offset->reject_reason(), reject->reject_reason());
  }
}

// Before every answer, the files that it depends on are compared with their checksums.
TEST_F(JobExplanationTest, NamesADamagedFile) {
  const fs::path copied = NewDirectory() / "store";
  fs::copy(*root_ / "store", copied, fs::copy_options::recursive);
  const StageStore store(copied);
  const auto ask = [&]() -> absl::Status {
    const auto explanation = JobExplanation::Open(*job_, store);
    if (!explanation.ok()) return explanation.status();
    if (const auto found = explanation->Document("copy-1", 100); !found.ok()) return found.status();
    return explanation->Instance(0, 100).status();
  };
  ASSERT_TRUE(ask().ok()) << ask();
  const std::map<std::string, std::vector<std::string>> files = {
      {"pack",
       {"provenance/ids.txt", "provenance/documents_by_id.npy", "provenance/spans.npy",
        "instances.bin", "instances.idx", "tokenizer.model"}},
      {"embed", {"embeddings.npy"}},
      {"ingest", {"ids.bin", "texts.bin", "rejects.jsonl"}},
      {"tokenize", {"tokens.idx"}},
      {"deduplicate", {"duplicate_pairs.npy", "duplicate_similarities.npy"}},
      {"order", {"heldout.npy"}}};
  size_t num_stages = 0;
  for (const v1::StageProgress& stage : job_->stages()) {
    if (!files.contains(stage.stage())) continue;
    ++num_stages;
    for (const std::string& name : files.at(stage.stage())) {
      const fs::path path = store.DirectoryOf(stage.stage(), stage.key()) / name;
      const auto flip = [&] {
        const auto at = static_cast<std::streamoff>(fs::file_size(path) - 2);
        std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
        file.seekg(at);
        const auto byte = static_cast<char>(file.get() ^ 1);
        file.seekp(at);
        file.put(byte);
      };
      flip();
      const absl::Status status = ask();
      EXPECT_TRUE(absl::IsDataLoss(status)) << name << ": " << status;
      EXPECT_THAT(std::string(status.message()), HasSubstr(path.string()));
      flip();
      EXPECT_TRUE(ask().ok()) << ask();
    }
  }
  EXPECT_EQ(num_stages, files.size());
}

TEST_F(JobExplanationTest, SuggestsSimilarIdsForAnUnknownOne) {
  const absl::Status status = explanation_->Document("doc_17", 0).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("\"doc_17\""), HasSubstr("did you mean"), HasSubstr("\"doc-17\"")));
  EXPECT_EQ(explanation_->Document("", 0).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(JobExplanationTest, ReportsTheRangeOfInstances) {
  for (const int64_t instance : {int64_t{-1}, job_->result().num_instances(), int64_t{1} << 40}) {
    const absl::Status status = explanation_->Instance(instance, 0).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange);
    EXPECT_THAT(std::string(status.message()),
                HasSubstr(std::to_string(job_->result().num_instances() - 1)));
  }
}

TEST_F(JobExplanationTest, LimitsTheResponseAndStopsWhenAsked) {
  const std::vector<int64_t> asked = {0, 1, 0, 0};
  int calls = 0;
  const auto go_on = [&] {
    ++calls;
    return absl::OkStatus();
  };
  const auto all = explanation_->Instances(asked, 160, int64_t{1} << 30, go_on);
  ASSERT_TRUE(all.ok()) << all.status();
  ASSERT_EQ(all->instances_size(), 4);
  EXPECT_EQ(calls, 4);
  EXPECT_EQ(all->instances(1).SerializeAsString(),
            explanation_->Instance(1, 160)->SerializeAsString());
  int64_t bytes = 0;
  for (const auto& instance : all->instances()) {
    bytes += static_cast<int64_t>(instance.ByteSizeLong());
  }
  EXPECT_TRUE(explanation_->Instances(asked, 160, bytes, go_on).ok());
  EXPECT_TRUE(explanation_->Instances(asked, 0, bytes - 1, go_on).ok());
  calls = 0;
  const auto large = explanation_->Instances(asked, 160, 1, go_on);
  EXPECT_EQ(large.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(large.status().message()),
              AllOf(HasSubstr("first 1 of 4"), HasSubstr("expected at most 1;"),
                    HasSubstr("lower excerpt_bytes or ask for fewer instances")));
  EXPECT_EQ(calls, 1) << "no work after that";
  const auto stop = [&] {
    return ++calls < 3 ? absl::OkStatus() : absl::CancelledError("the client disconnected");
  };
  calls = 0;
  EXPECT_EQ(explanation_->Instances(asked, 160, bytes, stop).status(),
            absl::CancelledError("the client disconnected"));
  EXPECT_EQ(calls, 3);
}

TEST_F(JobExplanationTest, NeedsAFinishedJobAndItsOutputs) {
  v1::Job running = *job_;
  running.set_state(v1::JOB_RUNNING);
  EXPECT_EQ(JobExplanation::Open(running, *store_).status().code(),
            absl::StatusCode::kFailedPrecondition);
  v1::Job unknown = *job_;
  for (v1::StageProgress& stage : *unknown.mutable_stages()) {
    if (stage.stage() == "embed") stage.set_key(std::string(32, '0'));
  }
  const absl::Status status = JobExplanation::Open(unknown, *store_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("embed"), HasSubstr("submit")));
}

}  // namespace job_explanation_test
}  // namespace braid
