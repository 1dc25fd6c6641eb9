#include "pipeline/jobs/pipeline_service.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "braid/v1/pipeline.grpc.pb.h"
#include "formats/manifest.h"
#include "formats/packed_dataset.h"
#include "pipeline/jobs/job_runner.h"
#include "pipeline/jobs/job_store.h"
#include "tests/formats/tiny_tokenizer_json.h"
#include "tests/pipeline/jobs/generated_corpus.h"
#include "tests/pipeline/jobs/pipeline_service_fixture.h"

namespace braid {
namespace pipeline_service_test {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

class PipelineServiceTest : public PipelineServiceFixture {};

TEST_F(PipelineServiceTest, RunsAJobToTheEndAndStreamsGapFreeEvents) {
  PipelineServer server(home_);
  const std::string id = MustSubmit(server, SmallSpec(corpus_));
  EXPECT_EQ(id, "job-000001");
  const auto events = Watch(server, id);
  for (size_t i = 0; i < events.size(); ++i) {
    EXPECT_EQ(events[i].number(), static_cast<int64_t>(i) + 1);
  }
  EXPECT_EQ(events.front().state(), v1::JOB_QUEUED);
  ASSERT_EQ(events.back().state(), v1::JOB_SUCCEEDED) << events.back().message();
  const v1::Job job = Get(server, id);
  EXPECT_EQ(job.last_event(), events.back().number());
  ASSERT_EQ(job.stages_size(), static_cast<int>(StageNames().size()));
  for (int i = 0; i < job.stages_size(); ++i) {
    EXPECT_EQ(job.stages(i).stage(), StageNames()[static_cast<size_t>(i)]);
    EXPECT_TRUE(job.stages(i).complete());
    EXPECT_FALSE(job.stages(i).reused());
  }
  EXPECT_TRUE(LoadVerifiedManifest(job.result().dataset_dir()).ok());
  // The stored progress of each stage is that of its last event.
  for (const v1::StageProgress& stage : job.stages()) {
    v1::StageProgress last;
    for (const v1::JobEvent& event : events) {
      if (event.progress().stage() == stage.stage()) last = event.progress();
    }
    EXPECT_EQ(last.SerializeAsString(), stage.SerializeAsString());
    EXPECT_EQ(stage.key().size(), 32u);
    EXPECT_EQ(stage.rejects(), GeneratedCorpus::kRejects);
    EXPECT_GT(stage.documents(), 0);
    EXPECT_GT(stage.bytes(), 0);
    EXPECT_GT(stage.resident_bytes(), 1 << 20);
    EXPECT_EQ(stage.eta_seconds(), 0);
  }
  EXPECT_GT(job.stages(0).bytes_per_second(), 0);
  const auto rest = Watch(server, id, 3);
  ASSERT_EQ(rest.size(), events.size() - 3);
  EXPECT_EQ(rest.front().SerializeAsString(), events[3].SerializeAsString());
}

TEST_F(PipelineServiceTest, ExplainsInstancesAndDocuments) {
  PipelineServer server(home_);
  const std::string id = MustSubmit(server, SmallSpec(corpus_));
  v1::ExplainInstancesRequest instances;
  instances.set_job_id(id);
  instances.add_instances(1);
  instances.add_instances(0);
  v1::ExplainInstancesResponse of_instances;
  const auto explain_instances = &v1::PipelineService::Stub::ExplainInstances;
  const auto explain_document = &v1::PipelineService::Stub::ExplainDocument;
  EXPECT_EQ(Call(server, explain_instances, instances, &of_instances).error_code(),
            grpc::StatusCode::FAILED_PRECONDITION);
  Watch(server, id);
  grpc::Status status = Call(server, explain_instances, instances, &of_instances);
  ASSERT_TRUE(status.ok()) << status.error_message();
  ASSERT_EQ(of_instances.instances_size(), 2);
  EXPECT_EQ(of_instances.instances(0).instance(), 1);
  const v1::DocumentSpan& span = of_instances.instances(1).spans(0);
  EXPECT_FALSE(span.excerpt().empty());
  v1::ExplainDocumentRequest document;
  document.set_job_id(id);
  document.set_document(span.document());
  v1::ExplainDocumentResponse of_document;
  status = Call(server, explain_document, document, &of_document);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(of_document.document_number(), span.document_number());
  document.set_document("no-such");
  EXPECT_EQ(Call(server, explain_document, document, &of_document).error_code(),
            grpc::StatusCode::NOT_FOUND);
  instances.add_instances(1 << 30);
  EXPECT_EQ(Call(server, explain_instances, instances, &of_instances).error_code(),
            grpc::StatusCode::OUT_OF_RANGE);
}

TEST_F(PipelineServiceTest, IsIdempotentInTheRequestId) {
  PipelineServer server(home_, /*num_workers=*/0);
  v1::Job first, again, other;
  ASSERT_TRUE(Submit(server, SmallSpec(corpus_), "r", &first).ok());
  ASSERT_TRUE(Submit(server, SmallSpec(corpus_), "r", &again).ok());
  EXPECT_EQ(again.id(), first.id());
  v1::CorpusSpec spec = SmallSpec(corpus_);
  spec.set_seed(99);
  EXPECT_EQ(Submit(server, spec, "r", &other).error_code(), grpc::StatusCode::ALREADY_EXISTS);
  EXPECT_NE(MustSubmit(server, spec), MustSubmit(server, spec)) << "generated request ids differ";
  v1::ListJobsResponse list;
  ASSERT_TRUE(
      Call(server, &v1::PipelineService::Stub::ListJobs, v1::ListJobsRequest(), &list).ok());
  ASSERT_EQ(list.jobs_size(), 3);
  EXPECT_EQ(list.jobs(0).id(), "job-000003");
}

TEST_F(PipelineServiceTest, DocumentsAreInRandomOrderByDefault) {
  PipelineServer server(home_);
  v1::CorpusSpec spec = SmallSpec(corpus_);
  spec.clear_order();
  const std::string id = MustSubmit(server, spec);
  ASSERT_EQ(Watch(server, id).back().state(), v1::JOB_SUCCEEDED);
  const v1::Job job = Get(server, id);
  EXPECT_EQ(job.spec().order(), v1::RANDOM);
  EXPECT_EQ(ReadDatasetInfo(job.result().dataset_dir()).value().order, "RANDOM");
}

TEST_F(PipelineServiceTest, NotesOfIngestAreThoseOfItsStage) {
  PipelineServer server(home_);
  v1::CorpusSpec spec = SmallSpec(corpus_);
  spec.mutable_ingest()->set_domain_field("nope");
  const std::string id = MustSubmit(server, spec);
  ASSERT_EQ(Watch(server, id).back().state(), v1::JOB_SUCCEEDED);
  const v1::Job job = Get(server, id);
  EXPECT_THAT(job.stages(0).notes(),
              ElementsAre("no record has the field \"nope\"; domains come from the names of files "
                          "and directories"));
  EXPECT_EQ(job.stages(1).notes_size(), 0);
}

// Similarity order was the default of earlier versions.
TEST_F(PipelineServiceTest, AStoredJobWithoutOrderHasSimilarityOrder) {
  v1::CorpusSpec spec = SmallSpec(corpus_);
  spec.clear_order();
  ASSERT_TRUE(JobStore::Open(home_).value()->Submit(spec, "r").ok());
  PipelineServer server(home_);
  ASSERT_EQ(Watch(server, "job-000001").back().state(), v1::JOB_SUCCEEDED);
  const std::string dataset = Get(server, "job-000001").result().dataset_dir();
  EXPECT_EQ(ReadDatasetInfo(dataset).value().order, "SIMILARITY");
}

TEST_F(PipelineServiceTest, ARepeatedRequestWithoutOrderFindsItsJobOfAnEarlierVersion) {
  PipelineServer server(home_, /*num_workers=*/0);
  v1::CorpusSpec spec = SmallSpec(corpus_);
  spec.set_order_partitions(2);
  v1::Job first, again;
  ASSERT_TRUE(Submit(server, spec, "r", &first).ok()) << "as such a version resolved it";
  spec.clear_order();
  ASSERT_TRUE(Submit(server, spec, "r", &again).ok());
  EXPECT_EQ(again.id(), first.id());
  spec.clear_order_partitions();
  EXPECT_EQ(Submit(server, spec, "r", &again).error_code(), grpc::StatusCode::ALREADY_EXISTS);
}

TEST_F(PipelineServiceTest, RefusesBadSettingsAndUnknownIds) {
  PipelineServer server(home_, 0);
  v1::Job job;
  v1::CorpusSpec spec = SmallSpec(corpus_);
  spec.mutable_neighbors()->set_k(-3);
  const grpc::Status bad = Submit(server, spec, "", &job);
  EXPECT_EQ(bad.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(bad.error_message(), HasSubstr("neighbors.k: got -3"));
  spec = SmallSpec(corpus_);
  spec.set_order(v1::RANDOM);
  spec.set_order_partitions(2);
  const grpc::Status unused = Submit(server, spec, "", &job);
  EXPECT_EQ(unused.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(unused.error_message(), HasSubstr("order_partitions: got 2, expected none unless"));
  v1::GetJobRequest get;
  get.set_id("job-000042");
  const grpc::Status missing = Call(server, &v1::PipelineService::Stub::GetJob, get, &job);
  EXPECT_EQ(missing.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_THAT(missing.error_message(), HasSubstr("braid jobs"));
  grpc::ClientContext context;
  v1::WatchJobRequest watch;
  watch.set_id("job-000042");
  const auto reader = server.stub().WatchJob(&context, watch);
  v1::JobEvent event;
  EXPECT_FALSE(reader->Read(&event));
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::NOT_FOUND);
}

TEST_F(PipelineServiceTest, RefusesNamesThatDoNotFitIntoAListing) {
  PipelineServer server(home_, 0);
  v1::CorpusSpec spec = SmallSpec(corpus_);
  for (const std::string& name : {std::string("a\nb\x1b[31mX"), std::string(100000, 'x')}) {
    spec.set_name(name);
    v1::Job job;
    const grpc::Status status = Submit(server, spec, "", &job);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
    EXPECT_THAT(status.error_message(), StartsWith("name: got "));
  }
}

TEST_F(PipelineServiceTest, ADatasetBelowARelativeHomeIsThatBelowTheHome) {
  std::string id;
  {
    const auto jobs = JobStore::Open(home_).value();
    id = jobs->Submit(SmallSpec(corpus_), "r").value().id();
    ASSERT_TRUE(jobs->ClaimNext().value().has_value());
    v1::JobResult result;
    result.set_dataset_dir("hs/store/pack-0123456789abcdef");
    ASSERT_TRUE(jobs->Succeed(id, result).ok());
  }
  PipelineServer server(home_, 0);
  const std::string dataset = home_ / "store/pack-0123456789abcdef";
  EXPECT_EQ(Get(server, id).result().dataset_dir(), dataset);
  v1::ListJobsResponse list;
  ASSERT_TRUE(
      Call(server, &v1::PipelineService::Stub::ListJobs, v1::ListJobsRequest(), &list).ok());
  EXPECT_EQ(list.jobs(0).result().dataset_dir(), dataset);
}

// Its text has fewer than 512 pieces, the smallest default of the vocabulary.
TEST_F(PipelineServiceTest, TheDefaultVocabularyFitsOneSmallDocument) {
  const fs::path small = NewDirectory() / "small.jsonl";
  std::ofstream(small) << R"({"text":"the quick brown fox jumps over the lazy dog and then it )"
                          R"(rests for a while in the shade of a tree, as it does each day"})";
  v1::CorpusSpec spec;
  spec.add_paths(small.string());
  spec.mutable_pack()->set_sequence_length(16);
  spec.set_num_threads(1);
  PipelineServer server(home_);
  const std::string id = MustSubmit(server, spec);
  EXPECT_EQ(Watch(server, id).back().state(), v1::JOB_SUCCEEDED) << Get(server, id).error();
}

// No pack.sequence_length is short enough.
TEST_F(PipelineServiceTest, ACorpusOfTwoTokensNeedsMoreDocuments) {
  const fs::path small = NewDirectory() / "small.jsonl";
  std::ofstream(small) << R"({"text":"x"})";
  v1::CorpusSpec spec;
  spec.add_paths(small.string());
  spec.mutable_pack()->set_heldout_fraction(0);
  spec.set_num_threads(1);
  PipelineServer server(home_);
  const std::string id = MustSubmit(server, spec);
  Watch(server, id);
  EXPECT_THAT(Get(server, id).error(),
              HasSubstr("got 2 training tokens, expected at least 4097 for one instance; add"));
}

TEST_F(PipelineServiceTest, MissingPathIsRefusedWithoutAJob) {
  PipelineServer server(home_);
  v1::Job job;
  const grpc::Status status = Submit(server, SmallSpec("/no/such/corpus.jsonl"), "", &job);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_THAT(status.error_message(), HasSubstr("/no/such/corpus.jsonl"));
}

TEST_F(PipelineServiceTest, DamagedEvaluationTextIsRefusedWithoutAJob) {
  PipelineServer server(home_);
  const fs::path file = NewDirectory() / "cut.jsonl.gz";
  std::ofstream(file, std::ios::binary) << "\x1f\x8b\x08";
  v1::CorpusSpec spec = SmallSpec(corpus_);
  spec.mutable_decontaminate()->add_paths(file.string());
  v1::Job job;
  const grpc::Status status = Submit(server, spec, "", &job);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("decontaminate.paths: " + file.string()));
  v1::ListJobsResponse jobs;
  ASSERT_TRUE(
      Call(server, &v1::PipelineService::Stub::ListJobs, v1::ListJobsRequest(), &jobs).ok());
  EXPECT_EQ(jobs.jobs_size(), 0);
}

// A job would use them only after ingest.
TEST_F(PipelineServiceTest, UnusableModelsAreRefusedWithoutAJob) {
  PipelineServer server(home_);
  const auto refusal = [&](const v1::CorpusSpec& spec) {
    v1::Job job;
    const grpc::Status status = Submit(server, spec, "", &job);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << status.error_message();
    return status.error_message();
  };
  const fs::path directory = NewDirectory();
  v1::CorpusSpec tokenizer = SmallSpec(corpus_);
  tokenizer.mutable_tokenizer()->Clear();
  tokenizer.mutable_tokenizer()->set_model_path((directory / "tokenizer.json").string());
  const auto refusal_of = [&](const std::string& text) {
    std::ofstream(directory / "tokenizer.json") << text;
    return refusal(tokenizer);
  };
  nlohmann::json json = TinyTokenizer({});
  json["truncation"] = {{"max_length", 8}};
  EXPECT_THAT(refusal_of(json.dump()),
              AllOf(StartsWith("tokenizer.model_path: "), HasSubstr("truncation")));
  EXPECT_THAT(refusal_of(R"({"model": {"type": "WordPiece"}})"), HasSubstr("WordPiece"));
  EXPECT_THAT(refusal_of("IQ== 0\n"), HasSubstr("tiktoken"));
  tokenizer.mutable_tokenizer()->set_begin_with_bos(true);
  EXPECT_THAT(refusal_of(TinyTokenizerJson({})), StartsWith("tokenizer.begin_with_bos: "));

  v1::CorpusSpec embedder = SmallSpec(corpus_);
  embedder.mutable_embedder()->Clear();
  embedder.mutable_embedder()->set_kind("contriever");
  embedder.mutable_embedder()->set_model_dir(directory.string());
  EXPECT_THAT(refusal(embedder),
              AllOf(StartsWith("embedder.model_dir: "), HasSubstr("config.json")));
  std::ofstream(directory / "config.json") << R"({"model_type": "roberta"})";
  EXPECT_THAT(refusal(embedder), HasSubstr("roberta"));
  embedder.mutable_embedder()->set_kind("static");
  EXPECT_THAT(refusal(embedder),
              AllOf(StartsWith("embedder.model_dir: "), HasSubstr("tokenizer.json")));
  v1::ListJobsResponse jobs;
  ASSERT_TRUE(
      Call(server, &v1::PipelineService::Stub::ListJobs, v1::ListJobsRequest(), &jobs).ok());
  EXPECT_EQ(jobs.jobs_size(), 0);
}

TEST_F(PipelineServiceTest, ThePrefixOfAnIndexedDatasetIsNoMissingPath) {
  const fs::path prefix = NewDirectory() / "text";
  for (const char* extension : {".bin", ".idx"}) std::ofstream(prefix.string() + extension);
  PipelineServer server(home_);
  v1::Job job;
  EXPECT_TRUE(Submit(server, SmallSpec(prefix), "tokens", &job).ok());
  EXPECT_EQ(Submit(server, SmallSpec(prefix.string() + "s"), "typo", &job).error_code(),
            grpc::StatusCode::NOT_FOUND);
}

TEST(MakePipelineServiceTest, ReportsAnInvalidHomeByName) {
  const auto service = MakePipelineService({.home = "/proc/nothing/here"});
  ASSERT_FALSE(service.ok());
  EXPECT_THAT(std::string(service.status().message()), HasSubstr("/proc/nothing"));
}

}  // namespace pipeline_service_test
}  // namespace braid
