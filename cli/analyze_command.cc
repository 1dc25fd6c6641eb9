// The commands "analyze" and "analyze routing".
#include <unistd.h>

#include <filesystem>
#include <iostream>

#include "base/atomic_file.h"
#include "base/status_macros.h"
#include "cli/arguments.h"
#include "cli/command.h"
#include "client/terminal/progress_board.h"
#include "client/terminal/routing_view.h"
#include "client/terminal/source_warning.h"
#include "client/terminal/terminal_text.h"
#include "rpc/interrupt.h"

namespace braid {
namespace {

struct RoutingOptions {
  std::string model, dataset, output;
  std::vector<int32_t> layers;
  int32_t max_windows = 0, texts = 0, threads = 0;
  bool strict = false;
};

v1::AnalyzeRoutingRequest RequestOf(const RoutingOptions& options) {
  v1::AnalyzeRoutingRequest request;
  request.set_model(ModelReference(options.model));
  if (!options.dataset.empty()) {
    request.set_dataset_dir(std::filesystem::absolute(options.dataset).lexically_normal().string());
  }
  request.mutable_layers()->Assign(options.layers.begin(), options.layers.end());
  request.set_max_windows_per_domain(options.max_windows);
  request.set_num_threads(options.threads);
  request.set_texts_per_expert(options.texts);
  request.set_strict(options.strict);
  return request;
}

absl::StatusOr<v1::AnalyzeRoutingEvent> Ask(AnalysisClient& client,
                                            const v1::AnalyzeRoutingRequest& request) {
  ProgressBoard board(std::cerr, IsTerminal(STDERR_FILENO));
  absl::StatusOr<v1::AnalyzeRoutingEvent> answer =
      client.AnalyzeRouting(request, [&](const v1::AnalyzeRoutingEvent& event) {
        board.Update("route", ProgressOf(event, "windows"));
      });
  if (Interrupted()) return absl::CancelledError("interrupted before the analysis was complete");
  return answer;
}

absl::Status AnalyzeRouting(Session& session, const RoutingOptions& options) {
  ASSIGN_OR_RETURN(AnalysisClient client, session.Analysis());
  CatchInterrupts();
  ASSIGN_OR_RETURN(const v1::AnalyzeRoutingEvent answer, Ask(client, RequestOf(options)));
  SourceWarning(std::cerr).Show(answer.result().source());
  if (!options.output.empty()) {
    RETURN_IF_ERROR(WriteFileAtomically(options.output, answer.html()));
    std::cerr << "wrote " << options.output << std::endl;
  }
  if (session.json) {
    std::cout << ToPrettyJson(answer.result()) << std::endl;
    return absl::OkStatus();
  }
  const RoutingViewOptions view = {.ascii = !ShowsUnicode(),
                                   .texts = options.texts > 0,
                                   .width = std::max(80, TerminalWidth(STDOUT_FILENO))};
  for (const std::string& line : RoutingLines(answer.result(), view)) std::cout << line << "\n";
  std::cout.flush();
  return absl::OkStatus();
}

void AddRoutingCommand(CLI::App& analyze, CommandLine& program) {
  auto options = std::make_shared<RoutingOptions>();
  CLI::App* command = analyze.add_subcommand(
      "routing", "Analyze expert routing on held-out text by domain, layer and expert");
  command->add_option("model", options->model, "Run id, run directory or checkpoint directory")
      ->required();
  AddStrict(command, &options->strict);
  command->add_option("--data", options->dataset,
                      "Dataset directory with the held-out text (default: the run's own)");
  command
      ->add_option("--layers", options->layers,
                   "Layers, such as 0,2,3 (default: all layers with experts)")
      ->delimiter(',')
      ->check(IntegerBetween(0, INT32_MAX));
  command
      ->add_option("--max-windows", options->max_windows,
                   "Maximum windows per domain (default: all)")
      ->check(PositiveInt32());
  command
      ->add_option(
          "--texts", options->texts,
          "Print the N top-activating segments of each expert (default: none; 3 in HTML and "
          "JSON)")
      ->check(IntegerBetween(1, 100));
  command->add_option("--threads", options->threads, "Number of threads (default: all cores)")
      ->check(IntegerBetween(1, 1024));
  command->add_option("-o,--output", options->output,
                      "Write an HTML page with charts to this file");
  command->footer(
      "Examples:\n"
      "  braid analyze routing run-000002\n"
      "  braid analyze routing run-000002 --layers 0,3 --texts 2\n"
      "  braid analyze routing run-000002 -o routing.html\n"
      "  braid analyze routing checkpoints/step-00000480 --data pack-0123456789abcdef --json\n"
      "\n"
      "Divergence and entropy are in nats; docs/analysis.md explains each figure.");
  command->callback([&program, options] {
    program.action = [&program, options] { return AnalyzeRouting(program.session, *options); };
  });
}

}  // namespace

void AddAnalyzeCommand(CommandLine& program) {
  CLI::App* analyze = program.app.add_subcommand("analyze", "Analyze the experts of a model");
  analyze->require_subcommand(1);
  AddRoutingCommand(*analyze, program);
  AddAnalyzeExperts(program, analyze);
}

}  // namespace braid
