// braid-trainer: trains, evaluates, analyzes, samples, exports and imports one model;
// docs/training.md. Exit codes: 0 success, 1 failure, 2 usage error or invalid input, 3 not found,
// 75 stopped by a signal after saving a checkpoint, 76 another attempt of the run has started.
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <functional>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/atomic_file.h"
#include "base/blas_core.h"
#include "base/sealed_text.h"
#include "base/status_macros.h"
#include "braid/v1/analysis.pb.h"
#include "cli/child_arguments.h"
#include "cli/corpus_documents.h"
#include "cli/user_file.h"
#include "evaluation/evaluate_tasks.h"
#include "evaluation/expert_activity.h"
#include "evaluation/layer_analysis.h"
#include "evaluation/perplexity.h"
#include "evaluation/routing_analysis.h"
#include "formats/piece_scanner.h"
#include "inference/generation.h"
#include "inference/huggingface/model_export.h"
#include "inference/huggingface/model_import.h"
#include "inference/model_conversion.h"
#include "inference/serving_loop.h"
#include "proto/config_text.h"
#include "proto/message_json.h"
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
  std::cout << MessageToJson(event).value_or("") << std::endl;
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

struct PathCommand {
  PathSubcommand arguments;
  std::function<int(const std::string& path)> run;
};

PathCommand RequestCommand(const char* name, const char* help,
                           std::function<absl::Status(const std::string&)> answer) {
  return {{name, help, "REQUEST", "File with the request, a message in protobuf text format"},
          [answer = std::move(answer)](const std::string& path) { return Report(answer(path)); }};
}

// Subcommands that answer a file with a request in text format: with any number of responses, and
// with one.
template <class Request, class Answer>
PathCommand Answers(const char* name, const char* help, Answer answer) {
  return RequestCommand(
      name, help, [answer](const std::string& path) { return AnswerFile<Request>(path, answer); });
}
template <class Request, class Response>
PathCommand AnswersOnce(const char* name, const char* help,
                        absl::StatusOr<Response> (*answer)(const Request&)) {
  return RequestCommand(name, help,
                        [answer](const std::string& path) { return AnswerOnce(path, answer); });
}

std::vector<PathCommand> PathCommands() {
  return {{{"train", "Train the run in RUN_DIR, or resume it", "RUN_DIR",
            "Run directory with run.textproto"},
           Train},
          {{"check-rank", "Report this rank's environment, for braid doctor", "SHARED_DIR",
            "Directory that all ranks must see", /*needs_path=*/false},
           CheckRanks},
          Answers<v1::EvaluateRequest>("evaluate", "Measure perplexity on held-out text",
                                       [](const v1::EvaluateRequest& request, const auto& emit) {
                                         return Evaluate(request, ReadCorpusDocuments, emit);
                                       }),
          Answers<v1::EvaluateTasksRequest>("evaluate-tasks", "Run downstream task evaluation",
                                            EvaluateTasks),
          Answers<v1::AnalyzeRoutingRequest>("analyze-routing", "Analyze expert routing",
                                             AnalyzeRouting),
          Answers<v1::AnalyzeExpertsRequest>(
              "analyze-experts", "Measure the activity of the units of experts", AnalyzeExperts),
          Answers<v1::AnalyzeLayersRequest>(
              "analyze-layers", "Measure what the outputs of layers encode",
              [](const v1::AnalyzeLayersRequest& request, const auto& emit) {
                return AnalyzeLayers(request, ReadCorpusDocuments, emit);
              }),
          Answers<v1::GenerateRequest>("generate", "Generate text", Generate),
          AnswersOnce("export", "Export a model to Hugging Face format", Export),
          AnswersOnce("import", "Import a Hugging Face model", Import),
          AnswersOnce("convert", "Convert between dense FFNs and experts", Convert)};
}

int Main(int argc, char** argv) {
  const std::vector<PathCommand> commands = PathCommands();
  std::vector<PathSubcommand> subcommands;
  for (const PathCommand& command : commands) subcommands.push_back(command.arguments);
  TrainerArguments arguments;
  if (const auto end = ParseTrainerArguments(argc, argv, subcommands, &arguments)) return *end;
  if (arguments.subcommand) return commands[*arguments.subcommand].run(arguments.path);
  // Ctrl-C in a shared terminal is handled by the parent, which may only stop the current text.
  signal(SIGINT, SIG_IGN);
  const ServingLoopOptions options = {.num_threads = arguments.num_threads,
                                      .together = arguments.together};
  return Report(ServeModel(arguments.path, options, STDIN_FILENO, PrintLine));
}

}  // namespace
}  // namespace braid

int main(int argc, char** argv) {
  braid::ReexecForBlas(argv);
  // A write beyond the file size limit then fails with an error that is reported, instead of
  // killing the process.
  signal(SIGXFSZ, SIG_IGN);
  const int exit_code = braid::Main(argc, argv);
#ifndef BRAID_ASAN
  // The exit handlers of LibTorch take a fifth of a short program's time, to unregister
  // operators.
  std::cout.flush();
  std::fflush(nullptr);
  _exit(exit_code);
#endif
  return exit_code;
}
