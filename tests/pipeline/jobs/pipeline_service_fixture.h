// Servers of corpus jobs, called through in-process channels.
#ifndef BRAID_TESTS_PIPELINE_JOBS_PIPELINE_SERVICE_FIXTURE_H_
#define BRAID_TESTS_PIPELINE_JOBS_PIPELINE_SERVICE_FIXTURE_H_

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "braid/v1/pipeline.grpc.pb.h"
#include "pipeline/jobs/pipeline_service.h"
#include "tests/pipeline/jobs/generated_corpus.h"

namespace braid {

// A server of one home directory, called through an in-process channel.
class PipelineServer {
 public:
  explicit PipelineServer(const std::filesystem::path& home, int num_workers = 1) {
    auto service = MakePipelineService({.home = home, .num_workers = num_workers});
    EXPECT_TRUE(service.ok()) << service.status();
    service_ = *std::move(service);
    grpc::ServerBuilder builder;
    builder.RegisterService(service_.get());
    server_ = builder.BuildAndStart();
    stub_ = v1::PipelineService::NewStub(server_->InProcessChannel({}));
  }
  ~PipelineServer() {
    stub_.reset();
    server_->Shutdown(std::chrono::system_clock::now());
  }

  v1::PipelineService::Stub& stub() { return *stub_; }

 private:
  std::unique_ptr<grpc::Service> service_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<v1::PipelineService::Stub> stub_;
};

class PipelineServiceFixture : public testing::Test {
 protected:
  PipelineServiceFixture() { WriteCorpus(corpus_); }

  template <class Request, class Response>
  using Method = grpc::Status (v1::PipelineService::Stub::*)(grpc::ClientContext*, const Request&,
                                                             Response*);

  template <class Request, class Response>
  static grpc::Status Call(PipelineServer& server, Method<Request, Response> method,
                           const Request& request, Response* response) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
    return (server.stub().*method)(&context, request, response);
  }

  grpc::Status Submit(PipelineServer& server, const v1::CorpusSpec& spec,
                      const std::string& request_id, v1::Job* job) {
    v1::SubmitCorpusRequest request;
    *request.mutable_spec() = spec;
    request.set_request_id(request_id);
    return Call(server, &v1::PipelineService::Stub::SubmitCorpus, request, job);
  }
  std::string MustSubmit(PipelineServer& server, const v1::CorpusSpec& spec) {
    v1::Job job;
    const grpc::Status status = Submit(server, spec, "", &job);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return job.id();
  }
  v1::Job Get(PipelineServer& server, const std::string& id) {
    v1::GetJobRequest request;
    request.set_id(id);
    v1::Job job;
    EXPECT_TRUE(Call(server, &v1::PipelineService::Stub::GetJob, request, &job).ok());
    return job;
  }
  // Reads the events after `after` until the job ends or `last` events have arrived.
  std::vector<v1::JobEvent> Watch(PipelineServer& server, const std::string& id, int64_t after = 0,
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

  const std::filesystem::path home_ = NewDirectory();
  const std::filesystem::path corpus_ = NewDirectory() / "tiny.jsonl";
};

}  // namespace braid

#endif  // BRAID_TESTS_PIPELINE_JOBS_PIPELINE_SERVICE_FIXTURE_H_
