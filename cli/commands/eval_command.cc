// eval
#include <unistd.h>

#include <filesystem>
#include <iostream>

#include "cli/arguments.h"
#include "cli/commands/command.h"
#include "cli/progress_board.h"
#include "cli/tables.h"
#include "formats/status_macros.h"

namespace braid {
namespace {

struct EvalOptions {
  std::string model, dataset, routing;
  int32_t max_windows = 0, threads = 0;
};

absl::Status Eval(Session& session, const EvalOptions& options) {
  v1::EvaluateRequest request;
  request.add_models(ModelReference(options.model));
  if (!options.dataset.empty()) {
    request.set_dataset_dir(std::filesystem::absolute(options.dataset).lexically_normal().string());
  }
  ASSIGN_OR_RETURN(const v1::InferenceRouting routing, ParseRouting(options.routing));
  request.add_routings(routing);
  request.set_max_windows_per_domain(options.max_windows);
  request.set_num_threads(options.threads);

  ASSIGN_OR_RETURN(AnalysisClient client, session.Analysis());
  ProgressBoard board(std::cerr, IsTerminal(STDERR_FILENO));
  ASSIGN_OR_RETURN(const v1::EvaluationResult result,
                   client.Evaluate(request, [&](const v1::EvaluateEvent& event) {
                     Progress progress;
                     progress.done = event.done();
                     progress.total = event.total();
                     progress.unit = "windows";
                     board.Update("evaluate", progress);
                   }));
  if (session.json) {
    std::cout << ToPrettyJson(result) << std::endl;
  } else {
    for (const auto& evaluation : result.evaluations()) PrintEvaluation(evaluation, std::cout);
  }
  return absl::OkStatus();
}

}  // namespace

void AddEvalCommand(Program& program) {
  auto options = std::make_shared<EvalOptions>();
  CLI::App* command = program.app.add_subcommand("eval", "Held-out perplexity by domain");
  command->add_option("model", options->model, "Run id, run directory or checkpoint directory")
      ->required();
  command->add_option("--data", options->dataset, "Dataset directory (default: the run's own)");
  command->add_option("--routing", options->routing, "segment (default) or prompt");
  command->add_option("--max-windows", options->max_windows, "At most so many windows a domain")
      ->check(PositiveInt32());
  command->add_option("--threads", options->threads, "Threads (all cores)")
      ->check(IntegerBetween(1, 1024));
  command->footer("Example:\n  braid eval run-000001 --routing prompt --json");
  command->callback([&program, options] {
    program.action = [&program, options] { return Eval(program.session, *options); };
  });
}

}  // namespace braid
