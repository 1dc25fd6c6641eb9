#include "pipeline/pipeline_service.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <random>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "braid/v1/pipeline.grpc.pb.h"
#include "formats/status_macros.h"
#include "pipeline/corpus_spec.h"
#include "pipeline/job_explanation.h"
#include "pipeline/job_state.h"
#include "pipeline/job_store.h"
#include "pipeline/job_worker.h"
#include "pipeline/stage_store.h"
#include "proto/grpc_status.h"

namespace braid {
namespace {

// Other processes may change a job, unseen by this one's condition variable.
constexpr std::chrono::milliseconds kPollInterval{200};

// Text of a span when a request does not say.
constexpr int64_t kExcerptBytes = 160;
constexpr int64_t kMaxExcerptBytes = int64_t{1} << 20;
constexpr int kMaxInstances = 65536;

int64_t ExcerptBytes(int32_t requested) {
  return requested == 0 ? kExcerptBytes : std::min<int64_t>(requested, kMaxExcerptBytes);
}

std::string NewRequestId() {
  std::random_device device;
  std::string id;
  for (int i = 0; i < 4; ++i) {
    char word[9];
    std::snprintf(word, sizeof word, "%08x", static_cast<unsigned>(device()));
    id += word;
  }
  return id;
}

template <class Message>
grpc::Status Reply(absl::StatusOr<Message> message, Message* response) {
  if (!message.ok()) return ToGrpc(message.status());
  *response = *std::move(message);
  return grpc::Status::OK;
}

// A mistyped path is told at once, not by a job that fails later.
absl::Status CheckPathsExist(const v1::CorpusSpec& spec) {
  std::error_code error;
  for (const std::string& path : spec.paths()) {
    if (std::filesystem::status(path, error).type() != std::filesystem::file_type::not_found) {
      continue;
    }
    return absl::NotFoundError(
        absl::StrCat("corpus path ", path, ": no such file or directory; check the spelling"));
  }
  return absl::OkStatus();
}

class PipelineServiceImpl final : public v1::PipelineService::Service {
 public:
  PipelineServiceImpl(const PipelineOptions& options, std::unique_ptr<JobStore> jobs)
      : jobs_(std::move(jobs)),
        stages_(options.home / "store"),
        worker_(options.home, jobs_.get(), &stages_, options.num_workers) {}

  grpc::Status SubmitCorpus(grpc::ServerContext*, const v1::SubmitCorpusRequest* request,
                            v1::Job* response) override {
    return Reply(Submit(*request), response);
  }

  grpc::Status GetJob(grpc::ServerContext*, const v1::GetJobRequest* request,
                      v1::Job* response) override {
    return Reply(jobs_->Get(request->id()), response);
  }

  grpc::Status ListJobs(grpc::ServerContext*, const v1::ListJobsRequest*,
                        v1::ListJobsResponse* response) override {
    absl::StatusOr<std::vector<v1::Job>> jobs = jobs_->List();
    if (!jobs.ok()) return ToGrpc(jobs.status());
    for (v1::Job& job : *jobs) *response->add_jobs() = std::move(job);
    return grpc::Status::OK;
  }

  grpc::Status WatchJob(grpc::ServerContext* context, const v1::WatchJobRequest* request,
                        grpc::ServerWriter<v1::JobEvent>* writer) override {
    return ToGrpc(Watch(*request, context, writer));
  }

  grpc::Status CancelJob(grpc::ServerContext*, const v1::CancelJobRequest* request,
                         v1::Job* response) override {
    return Reply(jobs_->RequestCancel(request->id()), response);
  }

  grpc::Status ResumeJob(grpc::ServerContext*, const v1::ResumeJobRequest* request,
                         v1::Job* response) override {
    return Reply(jobs_->Resume(request->id()), response);
  }

  grpc::Status ExplainInstances(grpc::ServerContext*, const v1::ExplainInstancesRequest* request,
                                v1::ExplainInstancesResponse* response) override {
    return Reply(Instances(*request), response);
  }

  grpc::Status ExplainDocument(grpc::ServerContext*, const v1::ExplainDocumentRequest* request,
                               v1::ExplainDocumentResponse* response) override {
    return Reply(Document(*request), response);
  }

 private:
  absl::StatusOr<v1::Job> Submit(const v1::SubmitCorpusRequest& request) {
    ASSIGN_OR_RETURN(const v1::CorpusSpec resolved, ResolveCorpusSpec(request.spec()));
    const std::string id = request.request_id().empty() ? NewRequestId() : request.request_id();
    // A repeated request finds its job even when the corpus has moved since.
    ASSIGN_OR_RETURN(const bool known, jobs_->Knows(id));
    if (!known) RETURN_IF_ERROR(CheckPathsExist(resolved));
    return jobs_->Submit(resolved, id);
  }

  absl::StatusOr<JobExplanation> Explanation(const std::string& id) {
    ASSIGN_OR_RETURN(const v1::Job job, jobs_->Get(id));
    return JobExplanation::Open(job, stages_);
  }

  absl::StatusOr<v1::ExplainInstancesResponse> Instances(
      const v1::ExplainInstancesRequest& request) {
    if (request.instances_size() > kMaxInstances) {
      return absl::InvalidArgumentError(absl::StrCat("instances: got ", request.instances_size(),
                                                     ", expected at most ", kMaxInstances));
    }
    ASSIGN_OR_RETURN(const JobExplanation explanation, Explanation(request.job_id()));
    v1::ExplainInstancesResponse response;
    for (const int64_t instance : request.instances()) {
      ASSIGN_OR_RETURN(*response.add_instances(),
                       explanation.Instance(instance, ExcerptBytes(request.excerpt_bytes())));
    }
    return response;
  }

  absl::StatusOr<v1::ExplainDocumentResponse> Document(const v1::ExplainDocumentRequest& request) {
    ASSIGN_OR_RETURN(const JobExplanation explanation, Explanation(request.job_id()));
    return explanation.Document(request.document(), ExcerptBytes(request.excerpt_bytes()));
  }

  absl::Status Watch(const v1::WatchJobRequest& request, grpc::ServerContext* context,
                     grpc::ServerWriter<v1::JobEvent>* writer) {
    int64_t sent = request.after_event();
    while (!context->IsCancelled()) {
      const uint64_t seen = jobs_->changes();
      ASSIGN_OR_RETURN(const auto events, jobs_->EventsAfter(request.id(), sent));
      for (const v1::JobEvent& event : events) {
        if (!writer->Write(event)) return absl::CancelledError("the client is gone");
        sent = event.number();
      }
      ASSIGN_OR_RETURN(const v1::Job job, jobs_->Get(request.id()));
      if (IsFinal(job.state()) && job.last_event() <= sent) return absl::OkStatus();
      RETURN_IF_ERROR(worker_.Unrecorded(request.id()));
      if (events.empty()) jobs_->WaitForChange(seen, kPollInterval);
    }
    return absl::CancelledError("the client is gone");
  }

  const std::unique_ptr<JobStore> jobs_;
  StageStore stages_;
  JobWorker worker_;  // last: its threads use the others
};

}  // namespace

absl::StatusOr<std::unique_ptr<grpc::Service>> MakePipelineService(const PipelineOptions& options) {
  if (options.num_workers < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("num_workers: got ", options.num_workers, ", expected 0 or more"));
  }
  ASSIGN_OR_RETURN(std::unique_ptr<JobStore> jobs, JobStore::Open(options.home));
  return std::make_unique<PipelineServiceImpl>(options, std::move(jobs));
}

}  // namespace braid
