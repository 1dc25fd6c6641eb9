#include "pipeline/jobs/pipeline_service.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/display_name.h"
#include "base/random_id.h"
#include "base/status_macros.h"
#include "braid/v1/pipeline.grpc.pb.h"
#include "pipeline/corpus/corpus_description.h"
#include "pipeline/corpus/corpus_files.h"
#include "pipeline/corpus/corpus_spec.h"
#include "pipeline/corpus/evaluation_texts.h"
#include "pipeline/jobs/job_event_source.h"
#include "pipeline/jobs/job_explanation.h"
#include "pipeline/jobs/job_store.h"
#include "pipeline/jobs/job_worker.h"
#include "pipeline/stages/given_models.h"
#include "pipeline/store/stage_store.h"
#include "proto/stated_defaults.h"
#include "rpc/explanation_limits.h"
#include "rpc/grpc_caller.h"
#include "rpc/grpc_event_stream.h"
#include "rpc/grpc_status.h"
#include "rpc/principal_quota.h"

namespace braid {
namespace {

// The interval at which changes of jobs by other processes are noticed.
constexpr std::chrono::milliseconds kPipelineServicePollInterval{200};

// The minimum time between two progress events of DescribeCorpus.
constexpr std::chrono::milliseconds kProgressInterval{250};

// Limits of a page of ListJobs. The limit in bytes keeps it well below the message limit of gRPC.
constexpr int32_t kMaxPageSize = 1000;
constexpr size_t kMaxPageBytes = size_t{2} << 20;

// Limit of ExplainInstances and ExplainDocument.
constexpr int64_t kMaxExcerptBytes = int64_t{1} << 20;
// Limit of a response of ExplainInstances.
constexpr int64_t kMaxExplanationBytes = int64_t{64} << 20;

template <class Request>
int64_t ExcerptBytes(Request request) {
  FillStatedDefaults(&request);
  return std::min<int64_t>(request.excerpt_bytes(), kMaxExcerptBytes);
}

// Returns a callback that sends progress events at most every kProgressInterval. The callback
// returns CANCELLED after the client has disconnected.
ReadProgress SendProgress(const grpc::ServerContext& context,
                          grpc::ServerWriter<v1::DescribeCorpusEvent>* writer) {
  using Clock = std::chrono::steady_clock;
  return [&context, writer, due = Clock::now()](int64_t done, int64_t total) mutable {
    const absl::Status gone = absl::CancelledError("the client disconnected");
    if (context.IsCancelled()) return gone;
    if (Clock::now() < due) return absl::OkStatus();
    due = Clock::now() + kProgressInterval;
    v1::DescribeCorpusEvent event;
    event.set_done(done);
    event.set_total(total);
    return writer->Write(event) ? absl::OkStatus() : gone;
  };
}

// Reports a mistyped path at once, instead of by a job that fails later.
absl::Status CheckPathsExist(const v1::CorpusSpec& spec) {
  const auto check = [](const char* what, const std::string& path) {
    std::error_code error;
    if (std::filesystem::status(path, error).type() != std::filesystem::file_type::not_found) {
      return absl::OkStatus();
    }
    return absl::NotFoundError(
        absl::StrCat(what, path, ": no such file or directory; check the spelling"));
  };
  for (const std::string& path : spec.paths()) {
    if (!IsIndexedDatasetPrefix(path)) RETURN_IF_ERROR(check("corpus path ", path));
  }
  for (const auto& [what, path] :
       {std::pair("tokenizer.model_path: ", spec.tokenizer().model_path()),
        std::pair("embedder.model_dir: ", spec.embedder().model_dir())}) {
    if (!path.empty()) RETURN_IF_ERROR(check(what, path));
  }
  for (const std::string& path : spec.decontaminate().paths()) {
    RETURN_IF_ERROR(check("decontaminate.paths: ", path));
  }
  return absl::OkStatus();
}

const std::filesystem::path& StateOf(const PipelineOptions& options) {
  return options.state.empty() ? options.home : options.state;
}

// WatchJob uses the callback API, because its calls last long and must not occupy a thread each.
using PipelineServiceBase =
    v1::PipelineService::WithCallbackMethod_WatchJob<v1::PipelineService::Service>;

class PipelineServiceImpl final : public PipelineServiceBase {
 public:
  PipelineServiceImpl(const PipelineOptions& options, std::unique_ptr<JobStore> jobs)
      : options_(options),
        jobs_(std::move(jobs)),
        stages_(options.home / "store", {.home = options.home}),
        worker_(StateOf(options), jobs_.get(), &stages_, options.num_workers,
                options.retry_seconds),
        descriptions_("corpora being described", options.max_descriptions,
                      "wait for one to end, or ask for a higher --quota-descriptions"),
        watches_([this](const std::string& id) { return OpenJobEvents(id, jobs_.get(), &worker_); },
                 {.poll_interval = kPipelineServicePollInterval,
                  .max_per_principal = options.max_watches}) {
    jobs_->SetListener([this] { watches_.Notify(); });
  }
  // Members are destroyed in reverse order: worker_ still records events when watches_ is gone.
  ~PipelineServiceImpl() override { jobs_->SetListener(nullptr); }

  grpc::Status SubmitCorpus(grpc::ServerContext* context, const v1::SubmitCorpusRequest* request,
                            v1::Job* response) override {
    return Reply(Located(Submit(*request, PrincipalOf(*context))), response);
  }

  grpc::Status GetJob(grpc::ServerContext*, const v1::GetJobRequest* request,
                      v1::Job* response) override {
    return Reply(Located(jobs_->Get(request->id())), response);
  }

  grpc::Status ListJobs(grpc::ServerContext*, const v1::ListJobsRequest* request,
                        v1::ListJobsResponse* response) override {
    return Reply(Page(*request), response);
  }

  grpc::ServerWriteReactor<v1::JobEvent>* WatchJob(grpc::CallbackServerContext* context,
                                                   const v1::WatchJobRequest* request) override {
    return watches_.Watch(context, request->id(), request->after_event());
  }

  grpc::Status CancelJob(grpc::ServerContext* context, const v1::CancelJobRequest* request,
                         v1::Job* response) override {
    const absl::Status allowed = CheckCaller(*context, request->id());
    return allowed.ok() ? Reply(Located(jobs_->RequestCancel(request->id())), response)
                        : ToGrpc(allowed);
  }

  grpc::Status ResumeJob(grpc::ServerContext* context, const v1::ResumeJobRequest* request,
                         v1::Job* response) override {
    const absl::Status allowed = CheckCaller(*context, request->id());
    if (!allowed.ok()) return ToGrpc(allowed);
    return Reply(Located(jobs_->Resume(request->id(), options_.max_jobs)), response);
  }

  grpc::Status ExplainInstances(grpc::ServerContext* context,
                                const v1::ExplainInstancesRequest* request,
                                v1::ExplainInstancesResponse* response) override {
    return Reply(Instances(*request, *context), response);
  }

  grpc::Status ExplainDocument(grpc::ServerContext*, const v1::ExplainDocumentRequest* request,
                               v1::ExplainDocumentResponse* response) override {
    return Reply(Document(*request), response);
  }

  grpc::Status DescribeCorpus(grpc::ServerContext* context,
                              const v1::DescribeCorpusRequest* request,
                              grpc::ServerWriter<v1::DescribeCorpusEvent>* writer) override {
    return ToGrpc(Describe(*request, *context, writer));
  }

 private:
  // Replaces a dataset below a relative home, as earlier versions stored it, by that below HOME.
  void Locate(v1::Job* job) const {
    const std::filesystem::path dataset = job->result().dataset_dir();
    if (dataset.empty() || dataset.is_absolute()) return;
    job->mutable_result()->set_dataset_dir(
        (std::filesystem::absolute(options_.home) / "store" / dataset.filename()).string());
  }
  absl::StatusOr<v1::Job> Located(absl::StatusOr<v1::Job> job) const {
    if (job.ok()) Locate(&*job);
    return job;
  }

  // Returns OK if the caller may change the job.
  absl::Status CheckCaller(const grpc::ServerContext& context, const std::string& id) {
    ASSIGN_OR_RETURN(const v1::Job job, jobs_->Get(id));
    return CheckMayManage(context, id, job.principal());
  }

  absl::StatusOr<v1::Job> Submit(const v1::SubmitCorpusRequest& request,
                                 const std::string& principal) {
    v1::CorpusSpec spec = request.spec();
    RETURN_IF_ERROR(CheckDisplayName(spec.name()));
    const std::string id = request.request_id().empty() ? RandomId(32) : request.request_id();
    ASSIGN_OR_RETURN(const std::optional<v1::Job> known, jobs_->OfRequest(id, principal));
    // Earlier versions stored SIMILARITY for a request without an order, which may be repeated now.
    if (known && known->spec().order() == v1::SIMILARITY &&
        spec.order() == v1::ORDER_MODE_UNSPECIFIED) {
      spec.set_order(v1::SIMILARITY);
    }
    ASSIGN_OR_RETURN(const v1::CorpusSpec resolved, ResolveCorpusSpec(spec));
    RETURN_IF_ERROR(CheckSettingsAreUsed(spec));
    // A repeated request returns its job even if the corpus was moved in the meantime.
    if (!known) RETURN_IF_ERROR(CheckInputs(resolved));
    return jobs_->Submit(resolved, id,
                         {.principal = principal, .max_unfinished = options_.max_jobs});
  }

  // Reports models and evaluation text that cannot be used at once, too: a job reads them after
  // ingest, or after most of its work.
  absl::Status CheckInputs(const v1::CorpusSpec& spec) {
    RETURN_IF_ERROR(CheckPathsExist(spec));
    const auto& paths = spec.decontaminate().paths();
    if (paths.empty() && spec.tokenizer().model_path().empty() &&
        spec.embedder().model_dir().empty()) {
      return absl::OkStatus();
    }
    // One call at a time, because each may need several GiB.
    const std::lock_guard lock(inputs_mutex_);
    RETURN_IF_ERROR(CheckGivenModels(spec));
    return CheckEvaluationTexts(std::vector<std::string>(paths.begin(), paths.end()));
  }

  absl::StatusOr<v1::ListJobsResponse> Page(const v1::ListJobsRequest& request) {
    if (request.page_size() < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("page_size: got ", request.page_size(), ", expected 0 or more"));
    }
    const int32_t size =
        request.page_size() == 0 ? kMaxPageSize : std::min(request.page_size(), kMaxPageSize);
    ASSIGN_OR_RETURN(std::vector<v1::Job> jobs, jobs_->List(request.page_token(), size + 1));
    v1::ListJobsResponse page;
    size_t bytes = 0;
    for (v1::Job& job : jobs) {
      Locate(&job);
      bytes += job.ByteSizeLong();
      if (page.jobs_size() > 0 && (page.jobs_size() == size || bytes > kMaxPageBytes)) {
        page.set_next_page_token(page.jobs().rbegin()->id());
        break;
      }
      *page.add_jobs() = std::move(job);
    }
    return page;
  }

  absl::StatusOr<JobExplanation> Explanation(const std::string& id) {
    ASSIGN_OR_RETURN(const v1::Job job, jobs_->Get(id));
    return JobExplanation::Open(job, stages_);
  }

  absl::StatusOr<v1::ExplainInstancesResponse> Instances(const v1::ExplainInstancesRequest& request,
                                                         const grpc::ServerContext& context) {
    if (request.instances_size() > kMaxExplainedInstances) {
      return absl::InvalidArgumentError(absl::StrCat("instances: got ", request.instances_size(),
                                                     ", expected at most ",
                                                     kMaxExplainedInstances));
    }
    ASSIGN_OR_RETURN(const JobExplanation explanation, Explanation(request.job_id()));
    const std::span<const int64_t> instances(request.instances().data(),
                                             static_cast<size_t>(request.instances_size()));
    return explanation.Instances(instances, ExcerptBytes(request), kMaxExplanationBytes,
                                 [&]() -> absl::Status {
                                   if (!context.IsCancelled()) return absl::OkStatus();
                                   return absl::CancelledError("the client disconnected");
                                 });
  }

  absl::StatusOr<v1::ExplainDocumentResponse> Document(const v1::ExplainDocumentRequest& request) {
    ASSIGN_OR_RETURN(const JobExplanation explanation, Explanation(request.job_id()));
    return explanation.Document(request.document(), ExcerptBytes(request));
  }

  absl::Status Describe(const v1::DescribeCorpusRequest& request,
                        const grpc::ServerContext& context,
                        grpc::ServerWriter<v1::DescribeCorpusEvent>* writer) {
    ASSIGN_OR_RETURN(const PrincipalQuota::Place place, descriptions_.Take(PrincipalOf(context)));
    v1::DescribeCorpusEvent last;
    ASSIGN_OR_RETURN(*last.mutable_result(),
                     braid::DescribeCorpus(request, [&, send = SendProgress(context, writer)](
                                                        int64_t done, int64_t total) {
                       last.set_done(done);
                       last.set_total(total);
                       return send(done, total);
                     }));
    return writer->Write(last) ? absl::OkStatus() : absl::CancelledError("the client disconnected");
  }

  const PipelineOptions options_;
  const std::unique_ptr<JobStore> jobs_;
  StageStore stages_;
  JobWorker worker_;  // its threads use the members above
  PrincipalQuota descriptions_;
  std::mutex inputs_mutex_;
  EventStreams<v1::JobEvent> watches_;  // its thread uses the members above
};

}  // namespace

absl::StatusOr<std::unique_ptr<grpc::Service>> MakePipelineService(const PipelineOptions& options) {
  if (options.num_workers < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("num_workers: got ", options.num_workers, ", expected 0 or more"));
  }
  ASSIGN_OR_RETURN(std::unique_ptr<JobStore> jobs, JobStore::Open(StateOf(options)));
  return std::make_unique<PipelineServiceImpl>(options, std::move(jobs));
}

}  // namespace braid
