// The command "eval perplexity".
#include <unistd.h>

#include <filesystem>
#include <iostream>
#include <map>
#include <memory>
#include <optional>

#include "base/path_roots.h"
#include "base/status_macros.h"
#include "cli/arguments.h"
#include "cli/command.h"
#include "cli/evaluation_flags.h"
#include "client/terminal/evaluation_table.h"
#include "client/terminal/explanation_tables.h"
#include "client/terminal/progress_board.h"
#include "client/terminal/source_warning.h"
#include "client/terminal/tables.h"
#include "client/terminal/terminal_text.h"
#include "rpc/interrupt.h"

namespace braid {
namespace {

// Values of --show.
const std::map<std::string, EvaluationMeasure>& Measures() {
  static const auto* const measures = new std::map<std::string, EvaluationMeasure>{
      {"perplexity", EvaluationMeasure::kPerplexity},
      {"bits-per-byte", EvaluationMeasure::kBitsPerByte},
      {"with-first-segment", EvaluationMeasure::kWithFirstSegment},
  };
  return *measures;
}

// Values of --fixed-weights.
const std::map<std::string, v1::FixedWeights>& FixedWeightsByName() {
  static const auto* const weights = new std::map<std::string, v1::FixedWeights>{
      {"average", v1::AVERAGE_WEIGHTS},
      {"uniform", v1::UNIFORM_WEIGHTS},
      {"next-domain", v1::NEXT_DOMAIN_WEIGHTS},
  };
  return *weights;
}

struct PerplexityOptions {
  std::vector<std::string> models, text, fixed_weights;
  std::string dataset, routing = "segment", show = "perplexity";
  std::vector<int32_t> active_experts;
  int32_t max_windows = 0, bootstrap = 0, threads = 0;
  uint64_t seed = 0;
  std::optional<uint64_t> routing_seed;
  InputNoiseFlags noise;
  double confidence = 0;
  bool strict = false;
};

absl::StatusOr<v1::EvaluateRequest> RequestOf(Session& session, const PerplexityOptions& options) {
  v1::EvaluateRequest request;
  for (const std::string& model : options.models) request.add_models(ModelReference(model));
  if (!options.dataset.empty()) {
    ASSIGN_OR_RETURN(*request.mutable_dataset_dir(), DatasetDirectory(session, options.dataset));
  }
  for (const std::string& path : options.text) request.add_paths(AbsolutePath(path));
  if (options.routing != "prompt") request.add_routings(v1::SEGMENT_ROUTING);
  if (options.routing != "segment") request.add_routings(v1::PROMPT_ROUTING);
  request.mutable_active_experts()->Assign(options.active_experts.begin(),
                                           options.active_experts.end());
  if (options.routing_seed.has_value()) request.set_routing_seed(*options.routing_seed);
  request.set_embedding_noise(options.noise.noise);
  request.set_noise_seed(options.noise.seed);
  for (const std::string& name : options.fixed_weights) {
    request.add_fixed_weights(FixedWeightsByName().at(name));
  }
  request.set_max_windows_per_domain(options.max_windows);
  request.set_num_threads(options.threads);
  request.set_bootstrap_samples(options.bootstrap);
  request.set_bootstrap_seed(options.seed);
  request.set_confidence(options.confidence);
  request.set_strict(options.strict);
  return request;
}

// Reports skipped records on standard error.
void WarnOfRejects(const v1::EvaluationResult& result) {
  if (result.num_rejected() == 0) return;
  std::cerr << "braid: " << WithThousands(result.num_rejected()) << " of "
            << WithThousands(result.num_rejected() + result.num_documents())
            << " records were skipped:\n";
  for (const std::string& reject : result.rejected()) std::cerr << "  " << OneLine(reject) << "\n";
  if (result.num_rejected() > result.rejected_size()) std::cerr << "  ...\n";
}

absl::Status EvalPerplexity(Session& session, const PerplexityOptions& options) {
  ASSIGN_OR_RETURN(const v1::EvaluateRequest request, RequestOf(session, options));
  ASSIGN_OR_RETURN(AnalysisClient client, session.Analysis());
  ProgressBoard board(std::cerr, IsTerminal(STDERR_FILENO));
  CatchInterrupts();
  const absl::StatusOr<v1::EvaluationResult> result =
      client.Evaluate(request, [&](const v1::EvaluateEvent& event) {
        board.Update("evaluate", ProgressOf(event, "windows"));
      });
  board.Close();
  if (Interrupted()) return absl::CancelledError("interrupted");
  RETURN_IF_ERROR(result.status());
  WarnOfRejects(*result);
  SourceWarning warning(std::cerr);
  for (const v1::Evaluation& evaluation : result->evaluations()) warning.Show(evaluation.source());
  if (session.json) {
    std::cout << ToPrettyJson(*result) << std::endl;
  } else {
    PrintEvaluation(*result, Measures().at(options.show), TerminalWidth(STDOUT_FILENO), std::cout);
  }
  return absl::OkStatus();
}

void AddText(CLI::App* command, PerplexityOptions* options) {
  command
      ->add_option("models", options->models,
                   "Run ids, run directories or checkpoint directories; each is compared with the "
                   "first")
      ->required();
  CLI::Option* data = command->add_option("--data", options->dataset,
                                          "Corpus job or dataset directory whose held-out split to "
                                          "score (default: the first run's own)");
  command
      ->add_option("--text", options->text,
                   "Score files and directories instead, read as by 'braid submit'")
      ->excludes(data);
  AddStrict(command, &options->strict);
}

void AddScoring(CLI::App* command, PerplexityOptions* options) {
  command->add_option("--routing", options->routing, "Routing at inference")
      ->check(OneOf({"segment", "prompt", "both"}))
      ->capture_default_str();
  command
      ->add_option(
          "--fixed-weights", options->fixed_weights,
          "Also score models that merge experts with fixed router weights for all segments; "
          "several values are separated by commas")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(OneOf({"average", "next-domain", "uniform"}));
  AddActiveExperts(command, &options->active_experts);
  AddRoutingSeed(command, &options->routing_seed);
  AddInputNoise(command, &options->noise);
  AddMaxWindows(command, &options->max_windows);
  command
      ->add_option("--bootstrap", options->bootstrap,
                   "Bootstrap resamples of the confidence intervals (default: 1000)")
      ->check(IntegerBetween(1, 1000000));
  command->add_option("--seed", options->seed, "Seed of the bootstrap (default: 0)")->check(Seed());
  command
      ->add_option("--confidence", options->confidence,
                   "Confidence level of the intervals (default: 0.95)")
      ->check(NumberBetween(0.01, 0.9999));
  command->add_option("--show", options->show, "Measure to tabulate by domain for several models")
      ->check(OneOf({"perplexity", "bits-per-byte", "with-first-segment"}))
      ->capture_default_str();
  AddThreads(command, &options->threads);
}

void AddEvalPerplexity(CommandLine& program, CLI::App* eval) {
  auto options = std::make_shared<PerplexityOptions>();
  CLI::App* command = eval->add_subcommand(
      "perplexity", "Measure perplexity and bits per byte on held-out text by domain");
  AddText(command, options.get());
  AddScoring(command, options.get());
  command->footer(
      "Examples:\n"
      "  braid eval perplexity run-000001\n"
      "  braid eval perplexity run-000001 run-000002 --routing both   # compare two models\n"
      "  braid eval perplexity run-000002 --fixed-weights average,uniform\n"
      "  braid eval perplexity run-000003 --active-experts 1,2,4,8,16\n"
      "  braid eval perplexity run-000002 --text books/ news.jsonl.zst --json");
  command->callback([&program, options] {
    program.action = [&program, options] { return EvalPerplexity(program.session, *options); };
  });
}

}  // namespace

void AddEvalCommand(CommandLine& program) {
  CLI::App* eval =
      program.app.add_subcommand("eval", "Evaluate a model: perplexity and downstream tasks");
  eval->require_subcommand(1);
  AddEvalPerplexity(program, eval);
  AddEvalTasks(program, eval);
}

}  // namespace braid
