// AnalysisService as plain calls.
#ifndef BRAID_RPC_ANALYSIS_CLIENT_H_
#define BRAID_RPC_ANALYSIS_CLIENT_H_

#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "braid/v1/analysis.pb.h"

namespace grpc {
class Channel;
}

namespace braid {

class AnalysisClient {
 public:
  explicit AnalysisClient(std::shared_ptr<grpc::Channel> channel) : channel_(std::move(channel)) {}

  absl::StatusOr<v1::DescribeModelResponse> DescribeModel(const v1::DescribeModelRequest& request);
  absl::StatusOr<v1::ReportResponse> Report(const v1::ReportRequest& request);
  absl::StatusOr<v1::ExportResponse> Export(const v1::ExportRequest& request);
  absl::StatusOr<v1::ImportResponse> Import(const v1::ImportRequest& request);
  // Reports progress and returns the result of the last event.
  absl::StatusOr<v1::EvaluationResult> Evaluate(
      const v1::EvaluateRequest& request,
      const std::function<void(const v1::EvaluateEvent&)>& on_progress);
  // Passes chunks on until the last, or until `on_chunk` returns an error, which is returned.
  absl::Status ExportMetrics(
      const v1::ExportMetricsRequest& request,
      const std::function<absl::Status(const v1::ExportMetricsChunk&)>& on_chunk);
  // The same for tasks.
  absl::StatusOr<v1::TasksResult> EvaluateTasks(
      const v1::EvaluateTasksRequest& request,
      const std::function<void(const v1::EvaluateTasksEvent&)>& on_progress);
  // Likewise; the last event has the result and the page.
  absl::StatusOr<v1::AnalyzeRoutingEvent> AnalyzeRouting(
      const v1::AnalyzeRoutingRequest& request,
      const std::function<void(const v1::AnalyzeRoutingEvent&)>& on_progress);

 private:
  std::shared_ptr<grpc::Channel> channel_;
};

}  // namespace braid

#endif  // BRAID_RPC_ANALYSIS_CLIENT_H_
