// braid-trainer: trains, evaluates, analyzes, samples, exports and imports one model;
// docs/training.md. Exit codes: 0 success, 1 failure, 2 usage error or invalid input, 3 not found,
// 75 stopped by a signal after saving a checkpoint, 76 another attempt of the run has started.
#include <signal.h>
#include <unistd.h>

#include <iostream>
#include <memory>
#include <string>

#include "CLI/CLI.hpp"
#include "base/atomic_file.h"
#include "base/blas_core.h"
#include "base/sealed_text.h"
#include "base/status_macros.h"
#include "cli/arguments.h"
#include "cli/corpus_documents.h"
#include "evaluation/evaluate_tasks.h"
#include "evaluation/expert_activity.h"
#include "evaluation/layer_analysis.h"
#include "evaluation/perplexity.h"
#include "evaluation/routing_analysis.h"
#include "formats/piece_scanner.h"
#include "google/protobuf/util/json_util.h"
#include "inference/generation.h"
#include "inference/huggingface/model_export.h"
#include "inference/huggingface/model_import.h"
#include "inference/model_conversion.h"
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

// Reads a request in text format from a file and prints one line of JSON per event of its answer.
template <class Request, class Answer>
absl::Status AnswerFile(const std::string& path, Answer answer) {
  Request request;
  ASSIGN_OR_RETURN(const std::string text, ReadUserFile(path));
  RETURN_IF_ERROR(CheckSealedLines(text, path));
  RETURN_IF_ERROR(ParseConfig(text, path, &request));
  try {
    return answer(request, PrintLine);
  } catch (const TokenizationError& error) {
    return absl::InvalidArgumentError(error.what());
  }
}

// As AnswerFile, for a request with a single response.
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
  CLI::App app(
      "Train, evaluate and sample segment-routed soft-MoE language models; started by braid and "
      "braidd.");
  app.require_subcommand(1);
  CLI::App* train = app.add_subcommand("train", "Train the run in RUN_DIR, or resume it");
  train->add_option("RUN_DIR", path, "Run directory with run.textproto")->required();
  CLI::App* evaluate = app.add_subcommand("evaluate", "Measure perplexity on held-out text");
  evaluate->add_option("REQUEST", path, "File with an EvaluateRequest in text format")->required();
  CLI::App* tasks = app.add_subcommand("evaluate-tasks", "Run downstream task evaluation");
  tasks->add_option("REQUEST", path, "File with an EvaluateTasksRequest in text format")
      ->required();
  CLI::App* routing = app.add_subcommand("analyze-routing", "Analyze expert routing");
  routing->add_option("REQUEST", path, "File with an AnalyzeRoutingRequest in text format")
      ->required();
  CLI::App* experts =
      app.add_subcommand("analyze-experts", "Measure the activity of the units of experts");
  experts->add_option("REQUEST", path, "File with an AnalyzeExpertsRequest in text format")
      ->required();
  CLI::App* layers =
      app.add_subcommand("analyze-layers", "Measure what the outputs of layers encode");
  layers->add_option("REQUEST", path, "File with an AnalyzeLayersRequest in text format")
      ->required();
  CLI::App* generate = app.add_subcommand("generate", "Generate text");
  generate->add_option("REQUEST", path, "File with a GenerateRequest in text format")->required();
  int num_threads = 0;
  CLI::App* serve =
      app.add_subcommand("serve", "Generate text for braidd over standard input and output");
  serve->add_option("MODEL", path, "Run or checkpoint directory")->required();
  serve->add_option("--threads", num_threads, "Number of threads (default: all cores)")
      ->check(IntegerBetween(0, 1024));
  bool together = false;
  serve->add_flag("--together", together,
                  "Batch all texts into one step (braidd --generate-together)");
  CLI::App* export_model = app.add_subcommand("export", "Export a model to Hugging Face format");
  export_model->add_option("REQUEST", path, "File with an ExportRequest in text format")
      ->required();
  CLI::App* import_model = app.add_subcommand("import", "Import a Hugging Face model");
  import_model->add_option("REQUEST", path, "File with an ImportRequest in text format")
      ->required();
  CLI::App* convert = app.add_subcommand("convert", "Convert between dense FFNs and experts");
  convert->add_option("REQUEST", path, "File with a ConvertRequest in text format")->required();
  CLI::App* check =
      app.add_subcommand("check-rank", "Report this rank's environment, for braid doctor");
  check->add_option("SHARED_DIR", path, "Directory that all ranks must see");
  if (const auto end = ParseArguments(app, "braid-trainer", argc, argv)) return *end;
  if (*train) return Train(path);
  if (*check) return CheckRanks(path);
  if (*export_model) return Report(AnswerOnce(path, Export));
  if (*import_model) return Report(AnswerOnce(path, Import));
  if (*convert) return Report(AnswerOnce(path, Convert));
  if (*tasks) return Report(AnswerFile<v1::EvaluateTasksRequest>(path, EvaluateTasks));
  if (*routing) return Report(AnswerFile<v1::AnalyzeRoutingRequest>(path, AnalyzeRouting));
  if (*experts) return Report(AnswerFile<v1::AnalyzeExpertsRequest>(path, AnalyzeExperts));
  if (*layers) {
    return Report(
        AnswerFile<v1::AnalyzeLayersRequest>(path, [](const auto& request, const auto& emit) {
          return AnalyzeLayers(request, ReadCorpusDocuments, emit);
        }));
  }
  if (*evaluate) {
    return Report(AnswerFile<v1::EvaluateRequest>(path, [](const auto& request, const auto& emit) {
      return Evaluate(request, ReadCorpusDocuments, emit);
    }));
  }
  if (*serve) {
    // Ctrl-C in a shared terminal is handled by the parent, which may only stop the current text.
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
  // A write beyond the file size limit then fails with an error that is reported, instead of
  // killing the process.
  signal(SIGXFSZ, SIG_IGN);
  return braid::Main(argc, argv);
}
