// A blocking client of AnalysisService.
#ifndef BRAID_RPC_ANALYSIS_CLIENT_H_
#define BRAID_RPC_ANALYSIS_CLIENT_H_

#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "braid/v1/conversion.pb.h"
#include "braid/v1/evaluation.pb.h"
#include "braid/v1/forecast.pb.h"
#include "braid/v1/report.pb.h"

namespace grpc {
class Channel;
}

namespace braid::v1 {
class AnalyzeExpertsEvent;
class AnalyzeExpertsRequest;
class AnalyzeLayersEvent;
class AnalyzeLayersRequest;
class AnalyzeRoutingEvent;
class AnalyzeRoutingRequest;
}  // namespace braid::v1

namespace braid {

// Thread-safe. Calls return the errors of the service and of the connection.
class AnalysisClient {
 public:
  explicit AnalysisClient(std::shared_ptr<grpc::Channel> channel) : channel_(std::move(channel)) {}

  absl::StatusOr<v1::DescribeModelResponse> DescribeModel(const v1::DescribeModelRequest& request);
  absl::StatusOr<v1::ReportResponse> Report(const v1::ReportRequest& request);
  absl::StatusOr<v1::ExportResponse> Export(const v1::ExportRequest& request);
  absl::StatusOr<v1::ImportResponse> Import(const v1::ImportRequest& request);
  absl::StatusOr<v1::ConvertResponse> Convert(const v1::ConvertRequest& request);
  // Calls `on_progress` for every event and returns the result in the last one.
  absl::StatusOr<v1::EvaluationResult> Evaluate(
      const v1::EvaluateRequest& request,
      const std::function<void(const v1::EvaluateEvent&)>& on_progress);
  // Calls `on_chunk` for every chunk. Stops at the first error of `on_chunk` and returns it.
  absl::Status ExportMetrics(
      const v1::ExportMetricsRequest& request,
      const std::function<absl::Status(const v1::ExportMetricsChunk&)>& on_chunk);
  // Calls `on_progress` for every event and returns the result in the last one.
  absl::StatusOr<v1::TasksResult> EvaluateTasks(
      const v1::EvaluateTasksRequest& request,
      const std::function<void(const v1::EvaluateTasksEvent&)>& on_progress);
  // Analyses call `on_progress` for every event and return the last one, which contains result and
  // page.
  absl::StatusOr<v1::AnalyzeRoutingEvent> AnalyzeRouting(
      const v1::AnalyzeRoutingRequest& request,
      const std::function<void(const v1::AnalyzeRoutingEvent&)>& on_progress);
  absl::StatusOr<v1::AnalyzeExpertsEvent> AnalyzeExperts(
      const v1::AnalyzeExpertsRequest& request,
      const std::function<void(const v1::AnalyzeExpertsEvent&)>& on_progress);
  absl::StatusOr<v1::AnalyzeLayersEvent> AnalyzeLayers(
      const v1::AnalyzeLayersRequest& request,
      const std::function<void(const v1::AnalyzeLayersEvent&)>& on_progress);

 private:
  std::shared_ptr<grpc::Channel> channel_;
};

}  // namespace braid

#endif  // BRAID_RPC_ANALYSIS_CLIENT_H_
