#include "control/analysis_service.h"

#include <iostream>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "base/atomic_file.h"
#include "base/path_roots.h"
#include "base/staged_output.h"
#include "base/status_macros.h"
#include "control/child_event.h"
#include "control/kept_results.h"
#include "control/model_directory.h"
#include "model/config/model_config.h"
#include "report/experts_page.h"
#include "report/layers_page.h"
#include "report/report_data.h"
#include "report/report_page.h"
#include "report/report_run.h"
#include "report/routing_page.h"
#include "rpc/grpc_caller.h"
#include "rpc/grpc_status.h"
#include "runs/forecast.h"
#include "runs/metrics_export/metrics_export.h"
#include "runs/run_directory.h"

namespace braid {
namespace {

// Returns the last component of a path, which names a run or a checkpoint.
std::string TitleOf(const std::string& model) {
  const std::filesystem::path path = std::filesystem::path(model).lexically_normal();
  return (path.has_filename() ? path : path.parent_path()).filename().string();
}

// Results were expensive to compute, so that a full disk must not lose those on their way to the
// client.
void WarnIfNotKept(const absl::Status& kept) {
  if (!kept.ok()) std::cerr << "warning: results are not stored: " << kept.message() << std::endl;
}

}  // namespace

absl::StatusOr<std::unique_ptr<grpc::Service>> MakeAnalysisService(const ControlOptions& options) {
  ASSIGN_OR_RETURN(std::unique_ptr<RunStore> store, RunStore::Open(options.home, options.state));
  return std::make_unique<AnalysisServiceImpl>(options, std::move(store));
}

AnalysisServiceImpl::AnalysisServiceImpl(const ControlOptions& options,
                                         std::unique_ptr<RunStore> store)
    : store_(std::move(store)),
      // Absolute, as all paths of a request: the child runs in the root directory.
      child_(options.trainer_binary.string(), std::filesystem::absolute(options.home) / "requests"),
      evaluations_("evaluations", options.max_evaluations,
                   "wait for one to end, or ask for a higher --quota-evaluations") {}

absl::StatusOr<std::filesystem::path> AnalysisServiceImpl::DirectoryOf(
    const std::string& model) const {
  return ModelDirectory(*store_, model);
}

absl::Status AnalysisServiceImpl::Evaluate(v1::EvaluateRequest request,
                                           grpc::ServerContext* context,
                                           grpc::ServerWriter<v1::EvaluateEvent>* writer) {
  if (request.models().empty()) return absl::InvalidArgumentError("models: name at least one");
  for (std::string& model : *request.mutable_models()) {
    ASSIGN_OR_RETURN(const std::filesystem::path directory, DirectoryOf(model));
    model = directory.string();
  }
  request.set_dataset_dir(AbsolutePath(request.dataset_dir()));
  for (std::string& path : *request.mutable_paths()) path = AbsolutePath(path);
  return StreamChild<v1::EvaluateEvent>("evaluate", request, request.num_threads(), context, writer,
                                        [&](const v1::EvaluateEvent& event) {
                                          WarnIfNotKept(KeepEvaluations(request, event.result()));
                                        });
}

absl::Status AnalysisServiceImpl::EvaluateTasks(
    v1::EvaluateTasksRequest request, grpc::ServerContext* context,
    grpc::ServerWriter<v1::EvaluateTasksEvent>* writer) {
  if (!request.answers_dir().empty() && !MayManage(*context, "")) {
    return absl::PermissionDeniedError(
        "answers_dir: only operators write directories of the server; leave it out (--answers) to "
        "store answers with the run");
  }
  ASSIGN_OR_RETURN(const std::filesystem::path model, DirectoryOf(request.model()));
  request.set_model(model.string());
  for (std::string& further : *request.mutable_further_models()) {
    ASSIGN_OR_RETURN(const std::filesystem::path directory, DirectoryOf(further));
    further = directory.string();
  }
  request.set_data_dir(AbsolutePath(request.data_dir()));
  request.set_answers_dir(AbsolutePath(request.answers_dir()));
  return StreamChild<v1::EvaluateTasksEvent>("evaluate-tasks", request, request.num_threads(),
                                             context, writer,
                                             [&](const v1::EvaluateTasksEvent& event) {
                                               WarnIfNotKept(KeepTasks(request, event.result()));
                                             });
}

template <class Event, class Request>
absl::Status AnalysisServiceImpl::StreamChild(const char* command, const Request& request,
                                              int num_threads, grpc::ServerContext* context,
                                              grpc::ServerWriter<Event>* writer,
                                              const std::function<void(Event&)>& on_result) {
  ASSIGN_OR_RETURN(const PrincipalQuota::Place place, evaluations_.Take(PrincipalOf(*context)));
  bool has_result = false;
  const auto forward = [&](std::string_view line) -> absl::Status {
    ASSIGN_OR_RETURN(Event event, ParseChildEvent<Event>(line));
    if (event.has_result()) {
      has_result = true;
      // Before the event is sent: `on_result` may add to it, and what it stores with the run is
      // kept even if the client has disconnected.
      on_result(event);
    }
    return writer->Write(event) ? absl::OkStatus()
                                : absl::CancelledError("the client has disconnected");
  };
  RETURN_IF_ERROR(child_.Run({.command = command,
                              .request = request,
                              .num_threads = num_threads,
                              .on_event = forward,
                              .cancelled = [&] { return context->IsCancelled(); }}));
  return has_result ? absl::OkStatus()
                    : absl::InternalError(
                          absl::StrCat("braid-trainer ", command, " exited without a result"));
}

template <class Event, class Request, class Result>
absl::Status AnalysisServiceImpl::Analyze(
    const char* command, Request request, grpc::ServerContext* context,
    grpc::ServerWriter<Event>* writer, std::string (*render)(const Result&, const std::string&)) {
  const std::string title = TitleOf(request.model());
  ASSIGN_OR_RETURN(const std::filesystem::path directory, DirectoryOf(request.model()));
  request.set_model(directory.string());
  return StreamChild<Event>(command, request, request.num_threads(), context, writer,
                            [&](Event& event) { event.set_html(render(event.result(), title)); });
}

template <class Request, class Response>
absl::Status AnalysisServiceImpl::AskChild(const char* command, const Request& request,
                                           int num_threads, grpc::ServerContext* context,
                                           Response* response) {
  ASSIGN_OR_RETURN(const PrincipalQuota::Place place, evaluations_.Take(PrincipalOf(*context)));
  // The service creates the parents, because the child is killed when the call is cancelled and
  // could not remove them. If that fails, the child tries again and reports the error.
  CreatedParents parents;
  const std::filesystem::path output = request.output_dir();
  parents.Create(output.parent_path()).IgnoreError();
  const absl::Cleanup tidy = [&] { RemoveAbandonedStaging(output); };
  bool answered = false;
  const auto keep = [&](std::string_view line) -> absl::Status {
    ASSIGN_OR_RETURN(*response, ParseChildEvent<Response>(line));
    answered = true;
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(child_.Run({.command = command,
                              .request = request,
                              .num_threads = num_threads,
                              .on_event = keep,
                              .cancelled = [&] { return context->IsCancelled(); }}));
  return answered ? absl::OkStatus()
                  : absl::InternalError(
                        absl::StrCat("braid-trainer ", command, " exited without an answer"));
}

absl::StatusOr<v1::ReportResponse> AnalysisServiceImpl::RenderRuns(
    const v1::ReportRequest& request) const {
  if (request.runs().empty()) return absl::InvalidArgumentError("runs: name at least one run");
  std::vector<std::filesystem::path> directories;
  for (const std::string& name : request.runs()) {
    ASSIGN_OR_RETURN(directories.emplace_back(), DirectoryOf(name));
  }
  ASSIGN_OR_RETURN(const std::vector<ReportRun> runs, ReadReportRuns(directories));
  v1::ReportResponse response;
  response.set_html(RenderReport(runs));
  for (std::string& cause : LeftOut(runs)) response.add_left_out(std::move(cause));
  if (request.with_data()) response.set_data(ReportData(runs));
  return response;
}

grpc::Status AnalysisServiceImpl::DescribeModel(grpc::ServerContext*,
                                                const v1::DescribeModelRequest* request,
                                                v1::DescribeModelResponse* response) {
  const absl::StatusOr<v1::ModelConfig> model = ResolveModelConfig(request->model());
  if (!model.ok()) return ToGrpc(model.status());
  *response = braid::DescribeModel(*model);
  if (request->has_forecast()) {
    const absl::StatusOr<v1::Forecast> forecast = ForecastTraining(*model, request->forecast());
    if (!forecast.ok()) return ToGrpc(forecast.status());
    *response->mutable_forecast() = *forecast;
  }
  return grpc::Status::OK;
}

grpc::Status AnalysisServiceImpl::Evaluate(grpc::ServerContext* context,
                                           const v1::EvaluateRequest* request,
                                           grpc::ServerWriter<v1::EvaluateEvent>* writer) {
  return ToGrpc(Evaluate(*request, context, writer));
}

grpc::Status AnalysisServiceImpl::ExportMetrics(
    grpc::ServerContext*, const v1::ExportMetricsRequest* request,
    grpc::ServerWriter<v1::ExportMetricsChunk>* writer) {
  const absl::StatusOr<std::filesystem::path> run = DirectoryOf(request->run());
  if (!run.ok()) return ToGrpc(run.status());
  return ToGrpc(braid::ExportMetrics(
      RunDirectory(*run), request->format(), [&](const v1::ExportMetricsChunk& chunk) {
        return writer->Write(chunk) ? absl::OkStatus()
                                    : absl::CancelledError("the client has disconnected");
      }));
}

grpc::Status AnalysisServiceImpl::EvaluateTasks(
    grpc::ServerContext* context, const v1::EvaluateTasksRequest* request,
    grpc::ServerWriter<v1::EvaluateTasksEvent>* writer) {
  return ToGrpc(EvaluateTasks(*request, context, writer));
}

grpc::Status AnalysisServiceImpl::AnalyzeRouting(
    grpc::ServerContext* context, const v1::AnalyzeRoutingRequest* request,
    grpc::ServerWriter<v1::AnalyzeRoutingEvent>* writer) {
  v1::AnalyzeRoutingRequest resolved = *request;
  resolved.set_dataset_dir(AbsolutePath(request->dataset_dir()));
  return ToGrpc(
      Analyze("analyze-routing", std::move(resolved), context, writer, RenderRoutingPage));
}

grpc::Status AnalysisServiceImpl::AnalyzeExperts(
    grpc::ServerContext* context, const v1::AnalyzeExpertsRequest* request,
    grpc::ServerWriter<v1::AnalyzeExpertsEvent>* writer) {
  v1::AnalyzeExpertsRequest resolved = *request;
  resolved.set_dataset_dir(AbsolutePath(request->dataset_dir()));
  resolved.set_tasks_dir(AbsolutePath(request->tasks_dir()));
  return ToGrpc(
      Analyze("analyze-experts", std::move(resolved), context, writer, RenderExpertsPage));
}

grpc::Status AnalysisServiceImpl::AnalyzeLayers(
    grpc::ServerContext* context, const v1::AnalyzeLayersRequest* request,
    grpc::ServerWriter<v1::AnalyzeLayersEvent>* writer) {
  v1::AnalyzeLayersRequest resolved = *request;
  for (std::string& path : *resolved.mutable_paths()) path = AbsolutePath(path);
  resolved.set_tasks_dir(AbsolutePath(request->tasks_dir()));
  return ToGrpc(Analyze("analyze-layers", std::move(resolved), context, writer, RenderLayersPage));
}

grpc::Status AnalysisServiceImpl::Report(grpc::ServerContext*, const v1::ReportRequest* request,
                                         v1::ReportResponse* response) {
  absl::StatusOr<v1::ReportResponse> report = RenderRuns(*request);
  if (!report.ok()) return ToGrpc(report.status());
  *response = *std::move(report);
  return grpc::Status::OK;
}

grpc::Status AnalysisServiceImpl::Export(grpc::ServerContext* context,
                                         const v1::ExportRequest* request,
                                         v1::ExportResponse* response) {
  v1::ExportRequest resolved = *request;
  const absl::StatusOr<std::filesystem::path> model = DirectoryOf(request->model());
  if (!model.ok()) return ToGrpc(model.status());
  resolved.set_model(model->string());
  resolved.set_output_dir(AbsolutePath(request->output_dir()));
  return ToGrpc(AskChild("export", resolved, request->num_threads(), context, response));
}

grpc::Status AnalysisServiceImpl::Import(grpc::ServerContext* context,
                                         const v1::ImportRequest* request,
                                         v1::ImportResponse* response) {
  v1::ImportRequest resolved = *request;
  resolved.set_source_dir(AbsolutePath(request->source_dir()));
  resolved.set_output_dir(AbsolutePath(request->output_dir()));
  resolved.set_tokenizer(AbsolutePath(request->tokenizer()));
  if (!request->base().empty()) {
    const absl::StatusOr<std::filesystem::path> base = DirectoryOf(request->base());
    if (!base.ok()) return ToGrpc(base.status());
    resolved.set_base(base->string());
  }
  return ToGrpc(AskChild("import", resolved, 0, context, response));
}

grpc::Status AnalysisServiceImpl::Convert(grpc::ServerContext* context,
                                          const v1::ConvertRequest* request,
                                          v1::ConvertResponse* response) {
  v1::ConvertRequest resolved = *request;
  const absl::StatusOr<std::filesystem::path> model = DirectoryOf(request->model());
  if (!model.ok()) return ToGrpc(model.status());
  resolved.set_model(model->string());
  resolved.set_output_dir(AbsolutePath(request->output_dir()));
  return ToGrpc(AskChild("convert", resolved, 0, context, response));
}

}  // namespace braid
