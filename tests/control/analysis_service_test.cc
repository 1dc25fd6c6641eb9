#include "control/analysis_service.h"

#include <gmock/gmock.h>
#include <google/protobuf/util/json_util.h>
#include <grpcpp/grpcpp.h>

#include <filesystem>
#include <system_error>
#include <thread>

#include "base/atomic_file.h"
#include "runs/run_directory.h"
#include "tests/control/control_fixture.h"

namespace braid {
namespace analysis_service_test {

using testing::HasSubstr;

class AnalysisServiceTest : public ControlFixture {
 protected:
  AnalysisServiceTest() {
    run_dir_ = RunStore::Open(root_ / "home").value()->Create("", "spec", 1).value().run_dir;
    EXPECT_TRUE(RunDirectory(run_dir_).WriteSpec(Spec("toy <run>")).ok());
    ControlOptions options = Options();
    options.max_evaluations = 1;
    service_ = MakeAnalysisService(options).value();
    grpc::ServerBuilder builder;
    builder.RegisterService(service_.get());
    server_ = builder.BuildAndStart();
    stub_ = v1::AnalysisService::NewStub(server_->InProcessChannel(grpc::ChannelArguments()));
    context_.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(30));
  }

  grpc::Status Evaluate(const v1::EvaluateRequest& request,
                        std::vector<v1::EvaluateEvent>* events) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(30));
    auto reader = stub_->Evaluate(&context, request);
    for (v1::EvaluateEvent event; reader->Read(&event);) events->push_back(event);
    return reader->Finish();
  }
  bool HasOpenRequests() const {
    const std::filesystem::path folder = root_ / "home/requests";
    return std::filesystem::exists(folder) && !std::filesystem::is_empty(folder);
  }

  std::filesystem::path run_dir_;
  std::unique_ptr<grpc::Service> service_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<v1::AnalysisService::Stub> stub_;
  grpc::ClientContext context_;
};

TEST_F(AnalysisServiceTest, DescribesAPreset) {
  v1::DescribeModelRequest request;
  request.mutable_model()->set_preset("0.3B/8E");
  v1::DescribeModelResponse response;
  ASSERT_TRUE(stub_->DescribeModel(&context_, request, &response).ok());
  EXPECT_NEAR(static_cast<double>(response.num_parameters()), 1.8e9, 0.05e9);
}

TEST_F(AnalysisServiceTest, UnknownPresetIsAnError) {
  v1::DescribeModelRequest request;
  request.mutable_model()->set_preset("0.4B");
  v1::DescribeModelResponse response;
  const grpc::Status status = stub_->DescribeModel(&context_, request, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("0.4B"));
}

TEST_F(AnalysisServiceTest, ForwardsEvaluationAndStoresItWithTheRun) {
  v1::EvaluateRequest request;
  request.add_models("run-000001");
  std::vector<v1::EvaluateEvent> events;
  ASSERT_TRUE(Evaluate(request, &events).ok());
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].done(), 1);
  EXPECT_EQ(events[1].result().evaluations(0).model(), run_dir_.string());
  EXPECT_THAT(ReadFile(run_dir_ / "evaluation.json").value(), HasSubstr("\"loss\": 2.5"));
  EXPECT_FALSE(HasOpenRequests());
}

// Only a standard evaluation is stored with the run.
TEST_F(AnalysisServiceTest, NonStandardEvaluationIsNotStored) {
  v1::EvaluateRequest standard;
  standard.add_models(run_dir_.string());
  std::vector<v1::EvaluateRequest> others(7, standard);
  others[0].set_dataset_dir((root_ / "other").string());
  others[1].add_paths("/some/text");
  others[2].set_max_windows_per_domain(3);
  others[3].add_routings(v1::PROMPT_ROUTING);
  others[4].set_confidence(0.5);
  others[5].set_bootstrap_seed(1);
  others[6].add_fixed_weights(v1::AVERAGE_WEIGHTS);
  for (const v1::EvaluateRequest& request : others) {
    std::vector<v1::EvaluateEvent> events;
    ASSERT_TRUE(Evaluate(request, &events).ok()) << request.DebugString();
    EXPECT_FALSE(std::filesystem::exists(run_dir_ / "evaluation.json")) << request.DebugString();
  }
}

// The figures of runs with shorter segments leave out more of each window than their own.
TEST_F(AnalysisServiceTest, EvaluationWithTheFirstSegmentIsNotStored) {
  v1::RunSpec spec = Spec("toy <run>");
  spec.mutable_model()->mutable_routing()->set_segment_length(8);
  ASSERT_TRUE(RunDirectory(run_dir_).WriteSpec(spec).ok());
  v1::EvaluateRequest request;
  request.add_models(run_dir_.string());
  std::vector<v1::EvaluateEvent> events;
  ASSERT_TRUE(Evaluate(request, &events).ok());
  EXPECT_FALSE(std::filesystem::exists(run_dir_ / "evaluation.json"));
}

TEST_F(AnalysisServiceTest, EvaluationOnTheRunsOwnDataIsStoredUnderAnyPath) {
  v1::EvaluateRequest request;
  request.add_models(run_dir_.string());
  request.set_dataset_dir((root_ / "dataset").string());
  std::vector<v1::EvaluateEvent> events;
  ASSERT_TRUE(Evaluate(request, &events).ok());
  EXPECT_TRUE(std::filesystem::exists(run_dir_ / "evaluation.json"));
}

TEST_F(AnalysisServiceTest, FailureCarriesTheMessageOfTheChild) {
  v1::EvaluateRequest request;
  request.add_models("run-000001");
  request.set_dataset_dir("/missing");
  std::vector<v1::EvaluateEvent> events;
  const grpc::Status status = Evaluate(request, &events);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(status.error_message(), "/missing is not a dataset");
}

TEST_F(AnalysisServiceTest, APrincipalHasALimitedNumberOfEvaluationsAtATime) {
  v1::EvaluateRequest endless;
  endless.add_models("run-000001");
  endless.set_dataset_dir("/endless");
  grpc::ClientContext first;
  const auto reader = stub_->Evaluate(&first, endless);
  v1::EvaluateEvent event;
  ASSERT_TRUE(reader->Read(&event));
  v1::EvaluateRequest request;
  request.add_models("run-000001");
  std::vector<v1::EvaluateEvent> events;
  const grpc::Status refused = Evaluate(request, &events);
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(refused.error_message(), HasSubstr("--quota-evaluations"));
  v1::ExportRequest export_request;
  export_request.set_model("run-000001");
  export_request.set_output_dir("relative/out");
  v1::ExportResponse response;
  EXPECT_EQ(stub_->Export(&context_, export_request, &response).error_code(),
            grpc::StatusCode::RESOURCE_EXHAUSTED);
  first.TryCancel();
  EXPECT_FALSE(reader->Finish().ok());
  EXPECT_TRUE(Eventually([&] { return Evaluate(request, &events).ok(); }));
}

TEST_F(AnalysisServiceTest, PathThatIsNotAModelIsRefused) {
  v1::EvaluateRequest request;
  request.add_models((root_ / "dataset").string());
  std::vector<v1::EvaluateEvent> events;
  const grpc::Status refused = Evaluate(request, &events);
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(refused.error_message(), testing::Not(HasSubstr("braid import")));
  Write(root_ / "dataset/config.json", "{}");
  EXPECT_THAT(
      Evaluate(request, &events).error_message(),
      HasSubstr("is not a model: it holds neither run.textproto (a run) nor model.textproto "
                "(a checkpoint); import it first: braid import " +
                (root_ / "dataset").string() + " -o CHECKPOINT"));
}

TEST_F(AnalysisServiceTest, MissingModelIsNamed) {
  v1::EvaluateRequest request;
  request.add_models("run-000009");
  std::vector<v1::EvaluateEvent> events;
  const grpc::Status status = Evaluate(request, &events);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_THAT(status.error_message(), HasSubstr("run-000009"));
}

TEST_F(AnalysisServiceTest, RoutingAnalysisIncludesItsPage) {
  v1::AnalyzeRoutingRequest request;
  request.set_model("run-000001");
  std::vector<v1::AnalyzeRoutingEvent> events;
  auto reader = stub_->AnalyzeRouting(&context_, request);
  for (v1::AnalyzeRoutingEvent event; reader->Read(&event);) events.push_back(event);
  ASSERT_TRUE(reader->Finish().ok());
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].total(), 2);
  EXPECT_EQ(events[0].html(), "");
  EXPECT_EQ(events[1].result().model(), run_dir_.string());
  EXPECT_THAT(events[1].html(), HasSubstr("<h1>Routing of run-000001</h1>"));
  EXPECT_THAT(events[1].html(), HasSubstr("prose"));
  EXPECT_FALSE(HasOpenRequests());
}

TEST_F(AnalysisServiceTest, ExpertAnalysisForwardsSplitAndResult) {
  v1::AnalyzeExpertsRequest request;
  request.set_model("run-000001");
  request.mutable_split()->set_num_experts(8);
  std::vector<v1::AnalyzeExpertsEvent> events;
  auto reader = stub_->AnalyzeExperts(&context_, request);
  for (v1::AnalyzeExpertsEvent event; reader->Read(&event);) events.push_back(event);
  ASSERT_TRUE(reader->Finish().ok());
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[1].result().model(), run_dir_.string());
  EXPECT_EQ(events[1].result().num_experts(), 8);
  EXPECT_THAT(events[1].html(), HasSubstr("<h1>Experts of run-000001</h1>"));
}

TEST_F(AnalysisServiceTest, LayerAnalysisReadsAbsolutePathsAndIncludesItsPage) {
  v1::AnalyzeLayersRequest request;
  request.set_model("run-000001");
  request.add_paths("books");
  std::vector<v1::AnalyzeLayersEvent> events;
  auto reader = stub_->AnalyzeLayers(&context_, request);
  for (v1::AnalyzeLayersEvent event; reader->Read(&event);) events.push_back(event);
  ASSERT_TRUE(reader->Finish().ok());
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].probe(), "length");
  EXPECT_EQ(events[1].result().model(), run_dir_.string());
  EXPECT_EQ(events[1].result().probes(0).name(),
            (std::filesystem::current_path() / "books").string());
  EXPECT_THAT(events[1].html(), HasSubstr("<h1>Layers of run-000001</h1>"));
}

TEST_F(AnalysisServiceTest, RefusedRoutingAnalysisCarriesTheMessage) {
  v1::AnalyzeRoutingRequest request;
  request.set_model("run-000001");
  request.add_layers(9);
  auto reader = stub_->AnalyzeRouting(&context_, request);
  v1::AnalyzeRoutingEvent event;
  EXPECT_FALSE(reader->Read(&event));
  const grpc::Status status = reader->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(status.error_message(), "layers: layer 9 does not exist");
}

TEST_F(AnalysisServiceTest, StoresStandardScoresOfTasksWithTheRun) {
  const auto ask = [&](const char* task, int mark, const auto& change) {
    v1::EvaluateTasksRequest request;
    request.set_model("run-000001");
    request.add_tasks()->set_name(task);
    request.set_num_threads(mark);
    change(&request);
    grpc::ClientContext context;
    auto reader = stub_->EvaluateTasks(&context, request);
    v1::EvaluateTasksEvent event;
    while (reader->Read(&event)) continue;
    EXPECT_TRUE(reader->Finish().ok());
    EXPECT_EQ(event.result().results(0).task(), task);
  };
  using Request = v1::EvaluateTasksRequest;
  ask("piqa", 10, [](Request*) {});
  ask("boolq", 20, [](Request*) {});
  ask("piqa", 30, [](Request*) {});
  // A request that is not standard changes nothing.
  ask("piqa", 41, [](Request* request) { request->set_max_examples(5); });
  ask("piqa", 42, [](Request* request) { request->set_num_shots(3); });
  ask("piqa", 43, [](Request* request) { request->set_seed(1); });
  ask("piqa", 44, [](Request* request) { request->mutable_tasks(0)->set_prompt("{goal}"); });
  ask("mine", 45, [](Request*) {});
  ask("agnews", 46, [](Request*) {});  // not with its own number of shots
  v1::TasksResult kept;
  const std::string text = ReadFile(run_dir_ / "tasks/result.json").value();
  google::protobuf::util::JsonParseOptions with_checksum;
  with_checksum.ignore_unknown_fields = true;
  ASSERT_TRUE(google::protobuf::util::JsonStringToMessage(text, &kept, with_checksum).ok()) << text;
  ASSERT_EQ(kept.results_size(), 2);
  EXPECT_EQ(kept.results(0).num_examples(), 30) << "a repeated request";
  EXPECT_EQ(kept.results(1).task(), "boolq");
}

TEST_F(AnalysisServiceTest, ExportsTheDirectoryOfARun) {
  v1::ExportRequest request;
  request.set_model("run-000001");
  request.set_output_dir("relative/out");
  v1::ExportResponse response;
  ASSERT_TRUE(stub_->Export(&context_, request, &response).ok());
  EXPECT_EQ(response.architecture(), run_dir_.string());
  EXPECT_EQ(response.output_dir(), std::filesystem::absolute("relative/out").string());
  EXPECT_FALSE(HasOpenRequests());
}

TEST_F(AnalysisServiceTest, RefusedImportCarriesTheMessage) {
  v1::ImportRequest request;
  request.set_source_dir((root_ / "llama").string());
  v1::ImportResponse response;
  const grpc::Status status = stub_->Import(&context_, request, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(status.error_message(), (root_ / "llama").string() + ": no such model");
}

// The child is killed, so it cannot remove what it has created.
TEST_F(AnalysisServiceTest, CancelledConversionLeavesNoFilesOrParents) {
  const std::filesystem::path mine = root_ / "mine", parent = mine / "a/b";
  std::filesystem::create_directory(mine);
  v1::ConvertRequest request;
  request.set_model("run-000001");
  request.set_output_dir((parent / "out").string());
  std::thread cancel([&] {
    std::error_code error;
    EXPECT_TRUE(Eventually([&] {
      const bool empty = std::filesystem::is_empty(parent, error);
      return !error && !empty;
    })) << "the child has not created its directory";
    context_.TryCancel();
  });
  v1::ConvertResponse response;
  EXPECT_EQ(stub_->Convert(&context_, request, &response).error_code(),
            grpc::StatusCode::CANCELLED);
  cancel.join();
  EXPECT_TRUE(Eventually([&] { return std::filesystem::is_empty(mine); }));
}

TEST_F(AnalysisServiceTest, ReportsARunThatHasJustStarted) {
  v1::ReportRequest request;
  request.add_runs("run-000001");
  v1::ReportResponse response;
  const grpc::Status status = stub_->Report(&context_, request, &response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_THAT(response.html(), HasSubstr("toy &lt;run&gt;"));
}

TEST_F(AnalysisServiceTest, ExportsMetrics) {
  Write(RunDirectory(run_dir_).metrics(), "{\"step\":\"1\",\"loss\":2.5}\n");
  v1::ExportMetricsRequest request;
  request.set_run("run-000001");
  request.set_format(v1::CSV);
  auto reader = stub_->ExportMetrics(&context_, request);
  v1::ExportMetricsChunk chunk;
  std::string table;
  while (reader->Read(&chunk)) table += chunk.data();
  EXPECT_TRUE(reader->Finish().ok());
  EXPECT_THAT(table, HasSubstr("\r\n1,,2.5,"));
}

TEST_F(AnalysisServiceTest, CheckpointHasNoMetrics) {
  Write(root_ / "step-00000010/model.textproto", "");
  v1::ExportMetricsRequest request;
  request.set_run((root_ / "step-00000010").string());
  request.set_format(v1::CSV);
  v1::ExportMetricsChunk chunk;
  auto reader = stub_->ExportMetrics(&context_, request);
  EXPECT_FALSE(reader->Read(&chunk));
  const grpc::Status status = reader->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_THAT(status.error_message(), HasSubstr("is not a run directory"));
}

TEST_F(AnalysisServiceTest, ReportWithoutRunsIsAnError) {
  v1::ReportResponse response;
  EXPECT_EQ(stub_->Report(&context_, {}, &response).error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
}

}  // namespace analysis_service_test
}  // namespace braid
