// Implements the run directory contract of braid-trainer without training anything.
// The name in run.textproto selects the behavior (for `serve`, see there):
//   "quick"    ten steps, then done          "endless"   steps until it is stopped
//   "failing"  reports a failure             "crashing"  ends without exit.json
//   "stubborn" ignores SIGTERM
#include <google/protobuf/util/json_util.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <string>

#include "base/atomic_file.h"
#include "base/staged_output.h"
#include "braid/v1/analysis.pb.h"
#include "braid/v1/conversion.pb.h"
#include "braid/v1/evaluation.pb.h"
#include "braid/v1/serving.pb.h"
#include "proto/config_text.h"
#include "runs/model_path.h"
#include "runs/run_directory.h"

namespace braid {
namespace {

volatile sig_atomic_t stop_requested = 0;
void OnTerminate(int) { stop_requested = 1; }

double Now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

int64_t CountLines(const std::filesystem::path& path) {
  std::ifstream in(path);
  int64_t lines = 0;
  for (std::string line; std::getline(in, line);) ++lines;
  return lines;
}

std::string Nonce() {
  const char* nonce = std::getenv(kNonceVariable);
  return nonce == nullptr ? "" : nonce;
}

void WriteHeartbeat(const RunDirectory& run, int64_t step) {
  v1::Heartbeat heartbeat;
  const char* rank = std::getenv("OMPI_COMM_WORLD_RANK");
  heartbeat.set_rank(rank == nullptr ? 0 : std::atoi(rank));
  heartbeat.set_pid(getpid());
  heartbeat.set_step(step);
  heartbeat.set_time(Now());
  char host[256] = {};
  gethostname(host, sizeof(host) - 1);
  heartbeat.set_host(host);
  heartbeat.set_nonce(Nonce());
  heartbeat.set_phase("other");
  (void)run.WriteHeartbeat(heartbeat);
}

int End(const RunDirectory& run, std::string_view outcome, const std::string& error, int64_t step,
        int code) {
  (void)run.WriteExit({std::string(outcome), error, step, Nonce(), false});
  return code;
}

int Train(const RunDirectory& run) {
  const v1::RunSpec spec = *run.ReadSpec();
  signal(SIGTERM, spec.name() == "stubborn" ? SIG_IGN : OnTerminate);
  std::cout << "training " << spec.name() << std::endl;
  int64_t step = CountLines(run.metrics());
  WriteHeartbeat(run, step);
  if (spec.name() == "crashing") {
    std::cerr << "out of <imaginary> memory" << std::endl;
    return 1;
  }
  if (spec.name() == "failing") return End(run, kFailed, "loss is NaN at step 3", 3, kExitFailed);
  std::ofstream metrics(run.metrics(), std::ios::app);
  while (spec.name() != "quick" || step < 10) {
    ++step;
    metrics << "{\"step\":" << step << ",\"loss\":" << 1.0 / static_cast<double>(step)
            << ",\"step_seconds\":0.5}" << std::endl;
    WriteHeartbeat(run, step);
    if (stop_requested) return End(run, kStopped, "", step, kExitStopped);
    poll(nullptr, 0, 5);
  }
  return End(run, kSucceeded, "", step, kExitDone);
}

template <class Request>
Request ReadRequest(const std::string& path) {
  Request request;
  const absl::Status parsed = ParseConfig(*ReadFile(path), path, &request);
  if (!parsed.ok()) std::cerr << parsed << std::endl;
  return request;
}

int Evaluate(const std::string& path) {
  const auto request = ReadRequest<v1::EvaluateRequest>(path);
  if (request.dataset_dir() == "/missing") {
    std::cerr << "braid-trainer: /missing is not a dataset" << std::endl;
    return 3;
  }
  if (request.dataset_dir() == "/endless") {
    std::cout << "{\"done\":1,\"total\":2}" << std::endl;
    while (true) poll(nullptr, 0, -1);
  }
  std::string dataset = request.dataset_dir();
  const RunDirectory run(request.models(0));
  if (dataset.empty()) dataset = run.ReadSpec()->dataset_dir();
  std::cout << "a library says hello\n{\"done\":1,\"total\":2}\n"
            << "{\"done\":2,\"total\":2,\"result\":{\"dataset_dir\":\"" << dataset
            << "\",\"evaluations\":[{\"model\":\"" << request.models(0)
            << "\",\"step\":7,\"first_segment_length\":16,\"routing\":\""
            << v1::InferenceRouting_Name(request.routings_size() > 0 ? request.routings(0)
                                                                     : v1::SEGMENT_ROUTING)
            << "\",\"total\":{\"domain\":\"all\",\"loss\":2.5}}]}}\n";
  return 0;
}

// The number of threads identifies a result.
int EvaluateTasks(const std::string& path) {
  const auto request = ReadRequest<v1::EvaluateTasksRequest>(path);
  const std::string task = request.tasks_size() > 0 ? request.tasks(0).name() : "piqa";
  std::filesystem::create_directories(request.model() + "/tasks");
  std::cout << "{\"task\":\"" << task << "\",\"done\":1,\"total\":1}\n{\"result\":{\"model\":\""
            << request.model() << "\",\"step\":7,\"results\":[{\"task\":\"" << task
            << "\",\"routing\":\"SEGMENT_ROUTING\",\"num_examples\":\"" << request.num_threads()
            << "\",\"num_shots\":" << request.num_shots() << "}]}}\n";
  return 0;
}

int AnalyzeExperts(const std::string& path) {
  const auto request = ReadRequest<v1::AnalyzeExpertsRequest>(path);
  std::cout << "{\"done\":1,\"total\":2}\n{\"done\":2,\"total\":2,\"result\":{\"model\":\""
            << request.model() << "\",\"num_experts\":" << request.split().num_experts() << "}}\n";
  return 0;
}

int AnalyzeLayers(const std::string& path) {
  const auto request = ReadRequest<v1::AnalyzeLayersRequest>(path);
  std::cout << "{\"probe\":\"length\",\"done\":1,\"total\":2}\n{\"result\":{\"model\":\""
            << request.model() << "\",\"probes\":[{\"name\":\"" << request.paths(0)
            << "\",\"layers\":[{\"layer\":-1,\"accuracy\":0.5}]}]}}\n";
  return 0;
}

int AnalyzeRouting(const std::string& path) {
  const auto request = ReadRequest<v1::AnalyzeRoutingRequest>(path);
  if (request.layers_size() > 0) {
    std::cerr << "braid-trainer: layers: layer " << request.layers(0) << " does not exist\n";
    return 2;
  }
  std::cout << "{\"done\":1,\"total\":2}\n{\"done\":2,\"total\":2,\"result\":{\"model\":\""
            << request.model()
            << "\",\"num_experts\":2,\"layers\":[{\"layer\":1,\"domains\":[{\"domain\":\"prose\","
               "\"weights\":[0.25,0.75]}]}]}}\n";
  return 0;
}

void Print(const v1::ServingReport& report) {
  std::string line;
  (void)google::protobuf::util::MessageToJsonString(report, &line);
  std::cout << line << std::endl;
}

void Tell(uint64_t id, const std::string& text, int num_tokens, bool done) {
  v1::ServingReport report;
  report.set_id(id);
  report.mutable_event()->set_text(text);
  report.mutable_event()->set_num_tokens(num_tokens);
  report.mutable_event()->set_done(done);
  v1::RoutingMixture* const mixture = report.mutable_event()->add_routing();
  mixture->set_before_token(num_tokens);
  mixture->add_weights(1);
  Print(report);
}

std::string NewestCheckpoint(const std::string& model) {
  std::string newest;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(model + "/checkpoints", error)) {
    newest = std::max(newest, entry.path().string());
  }
  return newest;
}

// Prompts: "endless" produces one word and never ends; "crash" kills the process; "flood" produces
// 20000 words, each with its own routing; "deaf" stops reading; "refuse" is an error; "which"
// returns the checkpoint; "pid" the process id; others are echoed.
void Serve(const v1::ServingCommand& command, const std::string& checkpoint) {
  const std::string& prompt = command.generate().prompt();
  const uint64_t id = command.id();
  if (command.cancel()) return;
  if (prompt == "crash") {
    std::cerr << "out of <imaginary> memory" << std::endl;
    raise(SIGKILL);
  }
  if (prompt == "refuse") {
    v1::ServingReport report;
    report.set_id(id);
    report.mutable_error()->set_code(3);
    report.mutable_error()->set_message("prompt: refused");
    return Print(report);
  }
  if (prompt == "deaf") {
    Tell(id, prompt, 1, false);
    while (true) pause();
  }
  if (prompt == "endless") return Tell(id, prompt, 1, false);
  if (prompt == "which") return Tell(id, checkpoint, 1, true);
  if (prompt == "pid") return Tell(id, std::to_string(getpid()), 1, true);
  const int words = prompt == "flood" ? 20000 : 1;
  for (int i = 1; i <= words; ++i) Tell(id, prompt, i, false);
  Tell(id, " world", words + 1, true);
}

int Serve(const std::string& model) {
  const std::string checkpoint = NewestCheckpoint(model);
  if (RunDirectory(model).ReadSpec()->name() == "crashing") {
    std::cerr << "out of <imaginary> memory" << std::endl;
    raise(SIGKILL);
  }
  if (RunDirectory(model).ReadSpec()->name() == "failing") {
    std::cerr << "braid-trainer: " << model << " holds no checkpoint yet" << std::endl;
    return 3;
  }
  std::cout << "a library says hello" << std::endl;
  v1::ServingReport loaded;
  loaded.mutable_loaded()->set_checkpoint(checkpoint);
  loaded.mutable_loaded()->set_num_parameters(42);
  Print(loaded);
  for (std::string line; std::getline(std::cin, line);) {
    v1::ServingCommand command;
    if (!google::protobuf::util::JsonStringToMessage(line, &command).ok()) return 2;
    Serve(command, checkpoint);
  }
  return 0;
}

int Export(const std::string& path) {
  const auto request = ReadRequest<v1::ExportRequest>(path);
  std::cout << "{\"output_dir\":\"" << request.output_dir() << "\",\"architecture\":\""
            << request.model() << "\"}" << std::endl;
  return 0;
}

int Import(const std::string& path) {
  const auto request = ReadRequest<v1::ImportRequest>(path);
  std::cerr << "braid-trainer: " << request.source_dir() << ": no such model" << std::endl;
  return 2;
}

// Writes its output until it is killed.
int Convert(const std::string& path) {
  const std::filesystem::path output = ReadRequest<v1::ConvertRequest>(path).output_dir();
  std::filesystem::create_directories(output.parent_path());
  const auto staging = StagingDirectory::Create(output);
  if (!staging.ok()) return kExitFailed;
  std::ofstream((*staging)->path() / "half") << "content";
  while (true) poll(nullptr, 0, -1);
}

}  // namespace
}  // namespace braid

int main(int argc, char** argv) {
  if (argc < 3) return braid::kExitUsage;
  const std::string command = argv[1];
  if (command == "train") return braid::Train(braid::RunDirectory(argv[2]));
  if (command == "evaluate") return braid::Evaluate(argv[2]);
  if (command == "evaluate-tasks") return braid::EvaluateTasks(argv[2]);
  if (command == "analyze-experts") return braid::AnalyzeExperts(argv[2]);
  if (command == "analyze-layers") return braid::AnalyzeLayers(argv[2]);
  if (command == "analyze-routing") return braid::AnalyzeRouting(argv[2]);
  if (command == "serve") return braid::Serve(braid::SplitReference(argv[2]).model);
  if (command == "export") return braid::Export(argv[2]);
  if (command == "import") return braid::Import(argv[2]);
  if (command == "convert") return braid::Convert(argv[2]);
  return braid::kExitUsage;
}
