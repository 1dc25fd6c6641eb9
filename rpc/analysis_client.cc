#include "rpc/analysis_client.h"

#include <utility>

#include "base/status_macros.h"
#include "braid/v1/analysis.grpc.pb.h"
#include "braid/v1/analysis.pb.h"
#include "rpc/grpc_call.h"

namespace braid {

absl::StatusOr<v1::DescribeModelResponse> AnalysisClient::DescribeModel(
    const v1::DescribeModelRequest& request) {
  return Call<v1::DescribeModelResponse>(*v1::AnalysisService::NewStub(channel_),
                                         &v1::AnalysisService::Stub::DescribeModel, request);
}

absl::StatusOr<v1::ReportResponse> AnalysisClient::Report(const v1::ReportRequest& request) {
  return LongCall<v1::ReportResponse>(*v1::AnalysisService::NewStub(channel_),
                                      &v1::AnalysisService::Stub::Report, request);
}

absl::StatusOr<v1::ExportResponse> AnalysisClient::Export(const v1::ExportRequest& request) {
  return LongCall<v1::ExportResponse>(*v1::AnalysisService::NewStub(channel_),
                                      &v1::AnalysisService::Stub::Export, request);
}

absl::StatusOr<v1::ImportResponse> AnalysisClient::Import(const v1::ImportRequest& request) {
  return LongCall<v1::ImportResponse>(*v1::AnalysisService::NewStub(channel_),
                                      &v1::AnalysisService::Stub::Import, request);
}

absl::StatusOr<v1::ConvertResponse> AnalysisClient::Convert(const v1::ConvertRequest& request) {
  return LongCall<v1::ConvertResponse>(*v1::AnalysisService::NewStub(channel_),
                                       &v1::AnalysisService::Stub::Convert, request);
}

absl::StatusOr<v1::EvaluationResult> AnalysisClient::Evaluate(
    const v1::EvaluateRequest& request,
    const std::function<void(const v1::EvaluateEvent&)>& on_progress) {
  ASSIGN_OR_RETURN(v1::EvaluateEvent last, ReadResult(*v1::AnalysisService::NewStub(channel_),
                                                      &v1::AnalysisService::Stub::Evaluate, request,
                                                      on_progress, "evaluation"));
  return std::move(*last.mutable_result());
}

absl::Status AnalysisClient::ExportMetrics(
    const v1::ExportMetricsRequest& request,
    const std::function<absl::Status(const v1::ExportMetricsChunk&)>& on_chunk) {
  // A stream that `on_chunk` stops ends with OK, so its error is kept here.
  absl::Status taken;
  const absl::Status sent = ReadStream<v1::ExportMetricsChunk>(
      *v1::AnalysisService::NewStub(channel_), &v1::AnalysisService::Stub::ExportMetrics, request,
      [&](const v1::ExportMetricsChunk& chunk) {
        taken = on_chunk(chunk);
        return taken.ok();
      });
  return taken.ok() ? sent : taken;
}

absl::StatusOr<v1::TasksResult> AnalysisClient::EvaluateTasks(
    const v1::EvaluateTasksRequest& request,
    const std::function<void(const v1::EvaluateTasksEvent&)>& on_progress) {
  ASSIGN_OR_RETURN(
      v1::EvaluateTasksEvent last,
      ReadResult(*v1::AnalysisService::NewStub(channel_), &v1::AnalysisService::Stub::EvaluateTasks,
                 request, on_progress, "evaluation"));
  return std::move(*last.mutable_result());
}

absl::StatusOr<v1::AnalyzeRoutingEvent> AnalysisClient::AnalyzeRouting(
    const v1::AnalyzeRoutingRequest& request,
    const std::function<void(const v1::AnalyzeRoutingEvent&)>& on_progress) {
  return ReadResult(*v1::AnalysisService::NewStub(channel_),
                    &v1::AnalysisService::Stub::AnalyzeRouting, request, on_progress, "analysis");
}

absl::StatusOr<v1::AnalyzeExpertsEvent> AnalysisClient::AnalyzeExperts(
    const v1::AnalyzeExpertsRequest& request,
    const std::function<void(const v1::AnalyzeExpertsEvent&)>& on_progress) {
  return ReadResult(*v1::AnalysisService::NewStub(channel_),
                    &v1::AnalysisService::Stub::AnalyzeExperts, request, on_progress, "analysis");
}

absl::StatusOr<v1::AnalyzeLayersEvent> AnalysisClient::AnalyzeLayers(
    const v1::AnalyzeLayersRequest& request,
    const std::function<void(const v1::AnalyzeLayersEvent&)>& on_progress) {
  return ReadResult(*v1::AnalysisService::NewStub(channel_),
                    &v1::AnalysisService::Stub::AnalyzeLayers, request, on_progress, "analysis");
}

}  // namespace braid
