#include "pipeline/jobs/pipeline_service.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <mutex>
#include <optional>
#include <streambuf>
#include <string>
#include <thread>
#include <vector>

#include "base/file_lock.h"
#include "braid/v1/pipeline.grpc.pb.h"
#include "formats/manifest.h"
#include "pipeline/jobs/job_runner.h"
#include "pipeline/jobs/job_store.h"
#include "pipeline/jobs/job_worker.h"
#include "tests/pipeline/jobs/generated_corpus.h"

namespace braid {
namespace pipeline_service_test {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

// A server of one home directory, called through an in-process channel.
class Server {
 public:
  explicit Server(const fs::path& home, int num_workers = 1) {
    auto service = MakePipelineService({.home = home, .num_workers = num_workers});
    EXPECT_TRUE(service.ok()) << service.status();
    service_ = *std::move(service);
    grpc::ServerBuilder builder;
    builder.RegisterService(service_.get());
    server_ = builder.BuildAndStart();
    stub_ = v1::PipelineService::NewStub(server_->InProcessChannel({}));
  }
  ~Server() {
    stub_.reset();
    server_->Shutdown(std::chrono::system_clock::now());
  }

  v1::PipelineService::Stub& stub() { return *stub_; }

 private:
  std::unique_ptr<grpc::Service> service_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<v1::PipelineService::Stub> stub_;
};

template <class Request, class Response>
using Method = grpc::Status (v1::PipelineService::Stub::*)(grpc::ClientContext*, const Request&,
                                                           Response*);

template <class Request, class Response>
grpc::Status Call(Server& server, Method<Request, Response> method, const Request& request,
                  Response* response) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
  return (server.stub().*method)(&context, request, response);
}

class PipelineServiceTest : public testing::Test {
 protected:
  PipelineServiceTest() { WriteCorpus(corpus_); }

  grpc::Status Submit(Server& server, const v1::CorpusSpec& spec, const std::string& request_id,
                      v1::Job* job) {
    v1::SubmitCorpusRequest request;
    *request.mutable_spec() = spec;
    request.set_request_id(request_id);
    return Call(server, &v1::PipelineService::Stub::SubmitCorpus, request, job);
  }
  std::string MustSubmit(Server& server, const v1::CorpusSpec& spec) {
    v1::Job job;
    const grpc::Status status = Submit(server, spec, "", &job);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return job.id();
  }
  v1::Job Get(Server& server, const std::string& id) {
    v1::GetJobRequest request;
    request.set_id(id);
    v1::Job job;
    EXPECT_TRUE(Call(server, &v1::PipelineService::Stub::GetJob, request, &job).ok());
    return job;
  }
  // Reads the events after `after` until the job ends or `last` events have arrived.
  std::vector<v1::JobEvent> Watch(Server& server, const std::string& id, int64_t after = 0,
                                  size_t last = SIZE_MAX) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
    v1::WatchJobRequest request;
    request.set_id(id);
    request.set_after_event(after);
    const auto reader = server.stub().WatchJob(&context, request);
    std::vector<v1::JobEvent> events;
    v1::JobEvent event;
    while (events.size() < last && reader->Read(&event)) events.push_back(event);
    if (events.size() >= last) context.TryCancel();
    const grpc::Status status = reader->Finish();
    EXPECT_TRUE(status.ok() || events.size() >= last) << status.error_message();
    return events;
  }

  const fs::path home_ = NewDirectory();
  const fs::path corpus_ = NewDirectory() / "tiny.jsonl";
};

// Collects what other threads write to std::cerr.
class ErrorOutput : public std::streambuf {
 public:
  ErrorOutput() : original_(std::cerr.rdbuf(this)) {}
  ~ErrorOutput() override { std::cerr.rdbuf(original_); }

  std::string text() const {
    const std::lock_guard guard(mutex_);
    return text_;
  }

 private:
  int_type overflow(int_type c) override {
    const std::lock_guard guard(mutex_);
    text_ += static_cast<char>(c);
    return c;
  }

  mutable std::mutex mutex_;
  std::string text_;
  std::streambuf* const original_;
};

TEST_F(PipelineServiceTest, SaysOnceWhyNoJobCanStartAndGoesOnWhenItCan) {
  fs::create_directories(home_ / kWorkerLockFile);
  ErrorOutput errors;
  Server server(home_);
  const std::string id = MustSubmit(server, SmallSpec(corpus_));
  for (int i = 0; i < 6000 && !errors.text().ends_with("trying again\n"); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_THAT(errors.text(), AllOf(StartsWith("cannot start queued jobs: "),
                                   HasSubstr((home_ / kWorkerLockFile).string())));
  fs::remove(home_ / kWorkerLockFile);
  EXPECT_EQ(Watch(server, id).back().state(), v1::JOB_SUCCEEDED);
  EXPECT_EQ(std::ranges::count(errors.text(), '\n'), 1) << errors.text();
}

TEST_F(PipelineServiceTest, RunsAJobToTheEndAndStreamsGapFreeEvents) {
  Server server(home_);
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
  Server server(home_);
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
  Server server(home_, /*num_workers=*/0);
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

TEST_F(PipelineServiceTest, RefusesBadSettingsAndUnknownIds) {
  Server server(home_, 0);
  v1::Job job;
  v1::CorpusSpec spec = SmallSpec(corpus_);
  spec.mutable_neighbors()->set_k(-3);
  const grpc::Status bad = Submit(server, spec, "", &job);
  EXPECT_EQ(bad.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(bad.error_message(), HasSubstr("neighbors.k: got -3"));
  v1::GetJobRequest get;
  get.set_id("job-000042");
  const grpc::Status missing = Call(server, &v1::PipelineService::Stub::GetJob, get, &job);
  EXPECT_EQ(missing.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_THAT(missing.error_message(), HasSubstr("`braid jobs`"));
  grpc::ClientContext context;
  v1::WatchJobRequest watch;
  watch.set_id("job-000042");
  const auto reader = server.stub().WatchJob(&context, watch);
  v1::JobEvent event;
  EXPECT_FALSE(reader->Read(&event));
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::NOT_FOUND);
}

TEST_F(PipelineServiceTest, RefusesNamesThatDoNotFitIntoAListing) {
  Server server(home_, 0);
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
  Server server(home_, 0);
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
  Server server(home_);
  const std::string id = MustSubmit(server, spec);
  EXPECT_EQ(Watch(server, id).back().state(), v1::JOB_SUCCEEDED) << Get(server, id).error();
}

TEST_F(PipelineServiceTest, MissingPathIsRefusedWithoutAJob) {
  Server server(home_);
  v1::Job job;
  const grpc::Status status = Submit(server, SmallSpec("/no/such/corpus.jsonl"), "", &job);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_THAT(status.error_message(), HasSubstr("/no/such/corpus.jsonl"));
}

TEST_F(PipelineServiceTest, ThePrefixOfAnIndexedDatasetIsNoMissingPath) {
  const fs::path prefix = NewDirectory() / "text";
  for (const char* extension : {".bin", ".idx"}) std::ofstream(prefix.string() + extension);
  Server server(home_);
  v1::Job job;
  EXPECT_TRUE(Submit(server, SmallSpec(prefix), "tokens", &job).ok());
  EXPECT_EQ(Submit(server, SmallSpec(prefix.string() + "s"), "typo", &job).error_code(),
            grpc::StatusCode::NOT_FOUND);
}

TEST_F(PipelineServiceTest, FailsWithTheCauseAndSucceedsWhenResumedAfterTheRepair) {
  const fs::path late = NewDirectory() / "late.jsonl";
  std::ofstream(late).flush();  // no document yet
  Server server(home_);
  const std::string id = MustSubmit(server, SmallSpec(late));
  EXPECT_EQ(Watch(server, id).back().state(), v1::JOB_FAILED);
  EXPECT_THAT(Get(server, id).error(), HasSubstr(late.string()));
  WriteCorpus(late);
  v1::ResumeJobRequest resume;
  resume.set_id(id);
  v1::Job job;
  const int64_t seen = Get(server, id).last_event();
  ASSERT_TRUE(Call(server, &v1::PipelineService::Stub::ResumeJob, resume, &job).ok());
  EXPECT_EQ(Watch(server, id, seen).back().state(), v1::JOB_SUCCEEDED);
  EXPECT_EQ(Get(server, id).error(), "");
}

TEST_F(PipelineServiceTest, CancelsAndResumes) {
  Server server(home_);
  const std::string id = MustSubmit(server, SmallSpec(corpus_));
  v1::CancelJobRequest cancel;
  cancel.set_id(id);
  v1::Job job;
  ASSERT_TRUE(Call(server, &v1::PipelineService::Stub::CancelJob, cancel, &job).ok());
  ASSERT_EQ(Watch(server, id).back().state(), v1::JOB_CANCELLED);
  v1::ResumeJobRequest resume;
  resume.set_id(id);
  ASSERT_TRUE(Call(server, &v1::PipelineService::Stub::ResumeJob, resume, &job).ok());
  EXPECT_EQ(Watch(server, id, job.last_event()).back().state(), v1::JOB_SUCCEEDED);
}

TEST_F(PipelineServiceTest, ContinuesAJobWhoseServerWasShutDown) {
  std::string id;
  {
    Server server(home_);
    id = MustSubmit(server, SmallSpec(corpus_));
    Watch(server, id, 0, 3);  // it is running
  }
  {
    Server onlooker(home_, 0);
    EXPECT_NE(Get(onlooker, id).state(), v1::JOB_RUNNING) << "interrupted and queued again";
  }
  Server server(home_);
  EXPECT_EQ(Watch(server, id).back().state(), v1::JOB_SUCCEEDED);
}

TEST_F(PipelineServiceTest, RequeuesJobsOfAKilledProcess) {
  {
    Server server(home_, 0);
    MustSubmit(server, SmallSpec(corpus_));
    const auto jobs = JobStore::Open(home_);
    ASSERT_TRUE((*jobs)->ClaimNext().ok());
  }
  Server server(home_);
  EXPECT_EQ(Watch(server, "job-000001").back().state(), v1::JOB_SUCCEEDED);
}

TEST_F(PipelineServiceTest, LeavesJobsToTheProcessThatHoldsTheLock) {
  auto lock = FileLock::TryTake(home_ / kWorkerLockFile).value();
  ASSERT_TRUE(lock.has_value());
  Server server(home_);
  Server onlooker(home_, 0);
  const std::string id = MustSubmit(onlooker, SmallSpec(corpus_));
  EXPECT_EQ(Watch(onlooker, id, 0, 1).size(), 1u);
  EXPECT_EQ(Get(onlooker, id).state(), v1::JOB_QUEUED);
  lock.reset();
  EXPECT_EQ(Watch(onlooker, id).back().state(), v1::JOB_SUCCEEDED)
      << "submitted and watched through one server, run by the other";
}

TEST_F(PipelineServiceTest, RunsJobsConcurrently) {
  Server server(home_, /*num_workers=*/2);
  v1::CorpusSpec random = SmallSpec(corpus_);
  random.set_order(v1::RANDOM);
  const std::string first = MustSubmit(server, SmallSpec(corpus_));
  const std::string second = MustSubmit(server, random);
  EXPECT_EQ(Watch(server, first).back().state(), v1::JOB_SUCCEEDED);
  EXPECT_EQ(Watch(server, second).back().state(), v1::JOB_SUCCEEDED);
  int made = 0;
  for (const std::string& id : {first, second}) {
    const v1::Job job = Get(server, id);
    for (const v1::StageProgress& stage : job.stages()) made += stage.reused() ? 0 : 1;
  }
  EXPECT_EQ(made, 9) << "five shared stages are made once, order and pack twice";
}

TEST(MakePipelineServiceTest, ReportsAnInvalidHomeByName) {
  const auto service = MakePipelineService({.home = "/proc/nothing/here"});
  ASSERT_FALSE(service.ok());
  EXPECT_THAT(std::string(service.status().message()), HasSubstr("/proc/nothing"));
}

}  // namespace pipeline_service_test
}  // namespace braid
