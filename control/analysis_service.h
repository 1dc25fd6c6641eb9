// braid.v1.AnalysisService. Describes models and reports on runs itself; requests that compute with
// a model are run by a braid-trainer child, so that no server ever holds a model or links its
// libraries.
#ifndef BRAID_CONTROL_ANALYSIS_SERVICE_H_
#define BRAID_CONTROL_ANALYSIS_SERVICE_H_

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "braid/v1/analysis.grpc.pb.h"
#include "control/control_service.h"
#include "control/model_child.h"
#include "control/run_store.h"
#include "rpc/principal_quota.h"

namespace braid {

class AnalysisServiceImpl final : public v1::AnalysisService::Service {
 public:
  AnalysisServiceImpl(const ControlOptions& options, std::unique_ptr<RunStore> store);

  grpc::Status DescribeModel(grpc::ServerContext* context, const v1::DescribeModelRequest* request,
                             v1::DescribeModelResponse* response) override;
  grpc::Status Evaluate(grpc::ServerContext* context, const v1::EvaluateRequest* request,
                        grpc::ServerWriter<v1::EvaluateEvent>* writer) override;
  grpc::Status ExportMetrics(grpc::ServerContext* context, const v1::ExportMetricsRequest* request,
                             grpc::ServerWriter<v1::ExportMetricsChunk>* writer) override;
  grpc::Status EvaluateTasks(grpc::ServerContext* context, const v1::EvaluateTasksRequest* request,
                             grpc::ServerWriter<v1::EvaluateTasksEvent>* writer) override;
  grpc::Status AnalyzeRouting(grpc::ServerContext* context,
                              const v1::AnalyzeRoutingRequest* request,
                              grpc::ServerWriter<v1::AnalyzeRoutingEvent>* writer) override;
  grpc::Status AnalyzeExperts(grpc::ServerContext* context,
                              const v1::AnalyzeExpertsRequest* request,
                              grpc::ServerWriter<v1::AnalyzeExpertsEvent>* writer) override;
  grpc::Status AnalyzeLayers(grpc::ServerContext* context, const v1::AnalyzeLayersRequest* request,
                             grpc::ServerWriter<v1::AnalyzeLayersEvent>* writer) override;
  grpc::Status Report(grpc::ServerContext* context, const v1::ReportRequest* request,
                      v1::ReportResponse* response) override;
  grpc::Status Export(grpc::ServerContext* context, const v1::ExportRequest* request,
                      v1::ExportResponse* response) override;
  grpc::Status Import(grpc::ServerContext* context, const v1::ImportRequest* request,
                      v1::ImportResponse* response) override;
  grpc::Status Convert(grpc::ServerContext* context, const v1::ConvertRequest* request,
                       v1::ConvertResponse* response) override;

 private:
  // Returns the directory of a run id, a run directory or a checkpoint directory.
  absl::StatusOr<std::filesystem::path> DirectoryOf(const std::string& model) const;
  absl::StatusOr<v1::ReportResponse> RenderRuns(const v1::ReportRequest& request) const;
  absl::Status Evaluate(v1::EvaluateRequest request, grpc::ServerContext* context,
                        grpc::ServerWriter<v1::EvaluateEvent>* writer);

  absl::Status EvaluateTasks(v1::EvaluateTasksRequest request, grpc::ServerContext* context,
                             grpc::ServerWriter<v1::EvaluateTasksEvent>* writer);
  // Runs the analysis of one model, whose other paths are absolute, in a child, and adds the page
  // that `render` makes of the result and a title.
  template <class Event, class Request, class Result>
  absl::Status Analyze(const char* command, Request request, grpc::ServerContext* context,
                       grpc::ServerWriter<Event>* writer,
                       std::string (*render)(const Result&, const std::string&));

  // Runs a request in a child that answers with a stream. The last event has the result, which
  // `on_result` may change.
  template <class Event, class Request>
  absl::Status StreamChild(const char* command, const Request& request, int num_threads,
                           grpc::ServerContext* context, grpc::ServerWriter<Event>* writer,
                           const std::function<void(Event&)>& on_result);
  // Runs a request in a child that writes `output_dir` and answers with one message. A call that
  // fails or is cancelled leaves nothing there.
  template <class Request, class Response>
  absl::Status AskChild(const char* command, const Request& request, int num_threads,
                        grpc::ServerContext* context, Response* response);

  const std::unique_ptr<RunStore> store_;
  const ModelChild child_;
  PrincipalQuota evaluations_;  // one place for each child
};

}  // namespace braid

#endif  // BRAID_CONTROL_ANALYSIS_SERVICE_H_
