#include "rpc/pipeline_client.h"

#include <utility>

#include "base/status_macros.h"
#include "braid/v1/pipeline.grpc.pb.h"
#include "rpc/grpc_call.h"

namespace braid {

absl::StatusOr<v1::Job> PipelineClient::SubmitCorpus(const v1::SubmitCorpusRequest& request) {
  return Call<v1::Job>(*v1::PipelineService::NewStub(channel_),
                       &v1::PipelineService::Stub::SubmitCorpus, request);
}

absl::StatusOr<v1::Job> PipelineClient::GetJob(const std::string& id) {
  return Call<v1::Job>(*v1::PipelineService::NewStub(channel_), &v1::PipelineService::Stub::GetJob,
                       WithId<v1::GetJobRequest>(id));
}

absl::StatusOr<v1::ListJobsResponse> PipelineClient::ListJobs() {
  return AllPages<v1::ListJobsResponse>(*v1::PipelineService::NewStub(channel_),
                                        &v1::PipelineService::Stub::ListJobs);
}

absl::StatusOr<v1::Job> PipelineClient::CancelJob(const std::string& id) {
  return Call<v1::Job>(*v1::PipelineService::NewStub(channel_),
                       &v1::PipelineService::Stub::CancelJob, WithId<v1::CancelJobRequest>(id));
}

absl::StatusOr<v1::Job> PipelineClient::ResumeJob(const std::string& id) {
  return Call<v1::Job>(*v1::PipelineService::NewStub(channel_),
                       &v1::PipelineService::Stub::ResumeJob, WithId<v1::ResumeJobRequest>(id));
}

absl::StatusOr<v1::ExplainInstancesResponse> PipelineClient::ExplainInstances(
    const v1::ExplainInstancesRequest& request) {
  return LongCall<v1::ExplainInstancesResponse>(*v1::PipelineService::NewStub(channel_),
                                                &v1::PipelineService::Stub::ExplainInstances,
                                                request);
}

absl::StatusOr<v1::ExplainDocumentResponse> PipelineClient::ExplainDocument(
    const v1::ExplainDocumentRequest& request) {
  return LongCall<v1::ExplainDocumentResponse>(*v1::PipelineService::NewStub(channel_),
                                               &v1::PipelineService::Stub::ExplainDocument,
                                               request);
}

absl::Status PipelineClient::WatchJob(const std::string& id,
                                      const std::function<bool(const v1::JobEvent&)>& on_event,
                                      const std::function<void()>& on_lost) {
  return WatchEvents<v1::JobEvent>(
      *channel_, *v1::PipelineService::NewStub(channel_), &v1::PipelineService::Stub::WatchJob,
      WithId<v1::WatchJobRequest>(id), on_event, kReconnectFor, kStreamDeadline, on_lost);
}

absl::StatusOr<v1::CorpusDescription> PipelineClient::DescribeCorpus(
    const v1::DescribeCorpusRequest& request,
    const std::function<void(const v1::DescribeCorpusEvent&)>& on_progress) {
  ASSIGN_OR_RETURN(
      v1::DescribeCorpusEvent last,
      ReadResult(*v1::PipelineService::NewStub(channel_),
                 &v1::PipelineService::Stub::DescribeCorpus, request, on_progress, "description"));
  return std::move(*last.mutable_result());
}

}  // namespace braid
