// The commands "analyze" and "analyze routing".
#include <unistd.h>

#include <filesystem>
#include <iostream>

#include "braid/v1/analysis.pb.h"
#include "cli/analysis_call.h"
#include "cli/arguments.h"
#include "cli/command.h"
#include "cli/evaluation_flags.h"
#include "client/terminal/routing_view.h"
#include "client/terminal/terminal_text.h"

namespace braid {
namespace {

struct RoutingOptions {
  std::string model, dataset, output;
  std::vector<int32_t> layers;
  int32_t max_windows = 0, texts = 0, threads = 0;
  bool strict = false;
};

absl::StatusOr<v1::AnalyzeRoutingRequest> RequestOf(Session& session,
                                                    const RoutingOptions& options) {
  v1::AnalyzeRoutingRequest request;
  request.set_model(ModelReference(options.model));
  if (!options.dataset.empty()) {
    ASSIGN_OR_RETURN(*request.mutable_dataset_dir(), DatasetDirectory(session, options.dataset));
  }
  request.mutable_layers()->Assign(options.layers.begin(), options.layers.end());
  request.set_max_windows_per_domain(options.max_windows);
  request.set_num_threads(options.threads);
  request.set_texts_per_expert(options.texts);
  request.set_strict(options.strict);
  return request;
}

absl::Status AnalyzeRouting(Session& session, const RoutingOptions& options) {
  ASSIGN_OR_RETURN(const v1::AnalyzeRoutingRequest request, RequestOf(session, options));
  return RunAnalysis<v1::AnalyzeRoutingRequest, v1::AnalyzeRoutingEvent>(
      session, &AnalysisClient::AnalyzeRouting, request,
      [](const v1::AnalyzeRoutingEvent&) { return "route"; }, "windows", options.output,
      [&](const v1::RoutingAnalysis& analysis) {
        const RoutingViewOptions view = {.ascii = !ShowsUnicode(),
                                         .texts = options.texts > 0,
                                         .width = std::max(80, TerminalWidth(STDOUT_FILENO))};
        for (const std::string& line : RoutingLines(analysis, view)) std::cout << line << "\n";
        std::cout.flush();
      });
}

void AddRoutingCommand(CLI::App& analyze, CommandLine& program) {
  auto options = std::make_shared<RoutingOptions>();
  CLI::App* command = analyze.add_subcommand(
      "routing", "Analyze expert routing on held-out text by domain, layer and expert");
  AddModel(command, &options->model);
  AddStrict(command, &options->strict);
  AddHeldoutText(command, &options->dataset);
  command
      ->add_option("--layers", options->layers,
                   "Layers, such as 0,2,3 (default: all layers with experts)")
      ->delimiter(',')
      ->check(IntegerBetween(0, INT32_MAX));
  AddMaxWindows(command, &options->max_windows);
  command
      ->add_option(
          "--texts", options->texts,
          "Print the N top-activating segments of each expert (default: none; 3 in HTML and "
          "JSON)")
      ->check(IntegerBetween(1, 100));
  AddThreads(command, &options->threads);
  AddPage(command, &options->output);
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
  CLI::App* analyze =
      program.app.add_subcommand("analyze", "Analyze the experts and layers of a model");
  analyze->require_subcommand(1);
  AddRoutingCommand(*analyze, program);
  AddAnalyzeExperts(program, analyze);
  AddAnalyzeLayers(program, analyze);
}

}  // namespace braid
