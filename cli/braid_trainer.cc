// braid-trainer: trains, scores, analyses, samples, exports and imports one model;
// docs/training.md. Exit codes: 0 done, 1 failed, 2 usage or bad input, 3 not found, 75 stopped on
// a signal after saving, 76 another attempt to train the run has begun.
#include <signal.h>
#include <unistd.h>

#include <iostream>
#include <memory>
#include <string>

#include "CLI/CLI.hpp"
#include "base/atomic_file.h"
#include "base/blas_core.h"
#include "base/status_macros.h"
#include "cli/corpus_documents.h"
#include "evaluation/evaluate_tasks.h"
#include "evaluation/perplexity.h"
#include "evaluation/routing_analysis.h"
#include "google/protobuf/util/json_util.h"
#include "inference/generation.h"
#include "inference/huggingface/model_export.h"
#include "inference/huggingface/model_import.h"
#include "inference/serving_loop.h"
#include "proto/config_text.h"
#include "runs/run_directory.h"
#include "trainer/parallel/mpi_communicator.h"
#include "trainer/rank_check.h"
#include "trainer/stop_signal.h"
#include "trainer/training_run.h"

namespace braid {
namespace {

int Report(const absl::Status& status) {
  if (status.ok()) return kExitDone;
  std::cerr << "braid-trainer: " << status.message() << std::endl;
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
      return kExitUsage;
    case absl::StatusCode::kNotFound:
      return kExitNotFound;
    default:
      return kExitFailed;
  }
}

int Train(const std::string& run_dir) {
  CatchStopSignals();
  absl::StatusOr<std::unique_ptr<Communicator>> ranks = JoinRanks();
  if (!ranks.ok()) return Report(ranks.status());
  return RunTraining(RunDirectory(run_dir), **ranks, StopSignaled);
}

int CheckRanks(const std::string& shared) {
  absl::StatusOr<std::unique_ptr<Communicator>> ranks = JoinRanks();
  if (!ranks.ok()) return Report(ranks.status());
  const absl::StatusOr<RankFindings> findings = CheckRank(**ranks, shared);
  if (!findings.ok()) return Report(findings.status());
  std::cout << ToJsonLine(*findings) << std::endl;
  return kExitDone;
}

void PrintLine(const google::protobuf::Message& event) {
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  std::string line;
  (void)google::protobuf::util::MessageToJsonString(event, &line, options);
  std::cout << line << std::endl;
}

// Answers the request in a file with one line of JSON per event.
template <class Request, class Answer>
absl::Status AnswerFile(const std::string& path, Answer answer) {
  Request request;
  ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  RETURN_IF_ERROR(ParseConfig(text, path, &request));
  return answer(request, PrintLine);
}

// The same for a request with one answer.
template <class Request, class Response>
absl::Status AnswerOnce(const std::string& path,
                        absl::StatusOr<Response> (*answer)(const Request&)) {
  return AnswerFile<Request>(path, [answer](const Request& request, auto emit) -> absl::Status {
    ASSIGN_OR_RETURN(const Response response, answer(request));
    emit(response);
    return absl::OkStatus();
  });
}

int Main(int argc, char** argv) {
  std::string path;
  CLI::App app("Trains, scores and samples segment-routed soft-MoE language models.");
  app.require_subcommand(1);
  CLI::App* train = app.add_subcommand("train", "Train, or resume, the run in RUN_DIR");
  train->add_option("RUN_DIR", path, "directory with run.textproto")->required();
  CLI::App* evaluate = app.add_subcommand("evaluate", "Score held-out text");
  evaluate->add_option("REQUEST", path, "an EvaluateRequest as textproto")->required();
  CLI::App* tasks = app.add_subcommand("evaluate-tasks", "Ask the examples of tasks");
  tasks->add_option("REQUEST", path, "an EvaluateTasksRequest as textproto")->required();
  CLI::App* routing = app.add_subcommand("analyze-routing", "Tell what the routers do");
  routing->add_option("REQUEST", path, "an AnalyzeRoutingRequest as textproto")->required();
  CLI::App* generate = app.add_subcommand("generate", "Sample text");
  generate->add_option("REQUEST", path, "a GenerateRequest as textproto")->required();
  int num_threads = 0;
  CLI::App* serve = app.add_subcommand("serve", "Sample text for braidd, which starts this");
  serve->add_option("MODEL", path, "run or checkpoint directory")->required();
  serve->add_option("--threads", num_threads, "threads (all cores)");
  bool together = false;
  serve->add_flag("--together", together, "one step for all texts (braidd --generate-together)");
  CLI::App* export_model = app.add_subcommand("export", "Write a Hugging Face directory");
  export_model->add_option("REQUEST", path, "an ExportRequest as textproto")->required();
  CLI::App* import_model = app.add_subcommand("import", "Read a Hugging Face directory");
  import_model->add_option("REQUEST", path, "an ImportRequest as textproto")->required();
  CLI::App* check =
      app.add_subcommand("check-rank", "Tell what a rank finds here, for braid doctor");
  check->add_option("SHARED_DIR", path, "directory that all ranks should see");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? kExitDone : kExitUsage;
  }
  if (*train) return Train(path);
  if (*check) return CheckRanks(path);
  if (*export_model) return Report(AnswerOnce(path, Export));
  if (*import_model) return Report(AnswerOnce(path, Import));
  if (*tasks) return Report(AnswerFile<v1::EvaluateTasksRequest>(path, EvaluateTasks));
  if (*routing) return Report(AnswerFile<v1::AnalyzeRoutingRequest>(path, AnalyzeRouting));
  if (*evaluate) {
    return Report(AnswerFile<v1::EvaluateRequest>(path, [](const auto& request, const auto& emit) {
      return Evaluate(request, ReadCorpusDocuments, emit);
    }));
  }
  if (*serve) {
    // For our parent, in the same terminal, it may mean no more than the end of one text.
    signal(SIGINT, SIG_IGN);
    return Report(ServeModel(path, {.num_threads = num_threads, .together = together}, STDIN_FILENO,
                             PrintLine));
  }
  return Report(AnswerFile<v1::GenerateRequest>(path, Generate));
}

}  // namespace
}  // namespace braid

int main(int argc, char** argv) {
  braid::ReexecForBlas(argv);
  // A file size limit then fails the write, which is reported, instead of ending the process.
  signal(SIGXFSZ, SIG_IGN);
  return braid::Main(argc, argv);
}
