// A blocking client of PipelineService.
#ifndef BRAID_RPC_PIPELINE_CLIENT_H_
#define BRAID_RPC_PIPELINE_CLIENT_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "braid/v1/corpus.pb.h"
#include "braid/v1/job.pb.h"

namespace grpc {
class Channel;
}

namespace braid::v1 {
class DescribeCorpusEvent;
class DescribeCorpusRequest;
class ExplainDocumentRequest;
class ExplainDocumentResponse;
class ExplainInstancesRequest;
class ExplainInstancesResponse;
class ListJobsResponse;
class SubmitCorpusRequest;
}  // namespace braid::v1

namespace braid {

// Thread-safe. Calls return the errors of the service and of the connection.
class PipelineClient {
 public:
  // `in_process`: the service runs in this process, so that its jobs stop when the process ends.
  explicit PipelineClient(std::shared_ptr<grpc::Channel> channel, bool in_process = false)
      : channel_(std::move(channel)), in_process_(in_process) {}

  bool in_process() const { return in_process_; }

  absl::StatusOr<v1::Job> SubmitCorpus(const v1::SubmitCorpusRequest& request);
  absl::StatusOr<v1::Job> GetJob(const std::string& id);
  absl::StatusOr<v1::ListJobsResponse> ListJobs();
  absl::StatusOr<v1::Job> CancelJob(const std::string& id);
  absl::StatusOr<v1::Job> ResumeJob(const std::string& id);
  absl::StatusOr<v1::ExplainInstancesResponse> ExplainInstances(
      const v1::ExplainInstancesRequest& request);
  absl::StatusOr<v1::ExplainDocumentResponse> ExplainDocument(
      const v1::ExplainDocumentRequest& request);
  // Calls `on_event` for every event until the job ends or it returns false. Continues after
  // restarts of the server; calls `on_lost` when one takes long.
  absl::Status WatchJob(const std::string& id,
                        const std::function<bool(const v1::JobEvent&)>& on_event,
                        const std::function<void()>& on_lost = nullptr);
  // Calls `on_progress` for every event and returns the result in the last one.
  absl::StatusOr<v1::CorpusDescription> DescribeCorpus(
      const v1::DescribeCorpusRequest& request,
      const std::function<void(const v1::DescribeCorpusEvent&)>& on_progress);

 private:
  std::shared_ptr<grpc::Channel> channel_;
  bool in_process_;
};

}  // namespace braid

#endif  // BRAID_RPC_PIPELINE_CLIENT_H_
