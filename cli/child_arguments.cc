#include "cli/child_arguments.h"

#include <vector>

#include "CLI/CLI.hpp"
#include "cli/arguments.h"

namespace braid {

std::optional<int> ParseEmbedderArguments(int argc, char** argv, EmbedderArguments* arguments) {
  CLI::App app("Compute text embeddings with a BERT encoder; started by braid and braidd.",
               "braid-embedder");
  app.add_option("--model", arguments->model, "Model directory in Hugging Face layout")->required();
  app.add_option("--max-tokens", arguments->max_tokens,
                 "Maximum word pieces per text; 0: all positions")
      ->check(IntegerBetween(0, 1 << 20));
  app.add_option("--text-prefix", arguments->prefix,
                 "Prefix added to each text (default: the default prompt of the model)");
  app.add_flag_callback(
      "--no-text-prefix", [arguments] { arguments->prefix = ""; }, "Add no prefix");
  app.add_option("--threads", arguments->num_threads, "Number of threads (default: all cores)")
      ->check(IntegerBetween(0, 1024));
  return ParseArguments(app, "braid-embedder", argc, argv);
}

std::optional<int> ParseSupervisorArguments(int argc, char** argv, SupervisorArguments* arguments) {
  CLI::App app(
      "Supervise the run in RUN_DIR until it ends: start mpirun as specified in launch.json, "
      "restart it after failures, and record events in events.jsonl. SIGTERM, or SIGUSR1 at the "
      "time limit of a job, stops the run after saving a checkpoint.\n\nExit codes: 0 the run "
      "succeeded; 1 the run failed or its directory is unusable; 2 usage error; 3 no run "
      "directory; 4 another supervisor holds the run; 75 the run was stopped (0 in a Slurm job).");
  app.add_option("RUN_DIR", arguments->run_dir, "Run directory with run.textproto and launch.json")
      ->required();
  std::string script;
  app.add_option("SCRIPT", script, "Ignored: the batch script whose interpreter is this program");
  app.add_flag("--reattach", arguments->reattach,
               "Re-attach to a run that has not ended; exit when it has ended");
  app.add_option("--stop-grace", arguments->stop_grace_seconds,
                 "Seconds from a stop request until mpirun is terminated")
      ->capture_default_str()
      ->check(AtLeastZero());
  app.add_option("--kill-grace", arguments->kill_grace_seconds,
                 "Seconds from terminating mpirun until all processes are killed")
      ->capture_default_str()
      ->check(AtLeastZero());
  return ParseArguments(app, "braid-supervisor", argc, argv);
}

std::optional<int> ParseTrainerArguments(int argc, char** argv,
                                         std::span<const PathSubcommand> subcommands,
                                         TrainerArguments* arguments) {
  CLI::App app(
      "Train, evaluate and sample segment-routed soft-MoE language models; started by braid and "
      "braidd.");
  app.require_subcommand(1);
  std::vector<CLI::App*> parsed;
  for (const PathSubcommand& subcommand : subcommands) {
    parsed.push_back(app.add_subcommand(subcommand.name, subcommand.help));
    parsed.back()
        ->add_option(subcommand.argument, arguments->path, subcommand.argument_help)
        ->required(subcommand.needs_path);
  }
  CLI::App* serve =
      app.add_subcommand("serve", "Generate text for braidd over standard input and output");
  serve->add_option("MODEL", arguments->path, "Run or checkpoint directory")->required();
  serve->add_option("--threads", arguments->num_threads, "Number of threads (default: all cores)")
      ->check(IntegerBetween(0, 1024));
  serve->add_flag("--together", arguments->together,
                  "Batch all texts into one step (braidd --generate-together)");
  if (const auto end = ParseArguments(app, "braid-trainer", argc, argv)) return end;
  for (size_t i = 0; i < parsed.size(); ++i) {
    if (*parsed[i]) arguments->subcommand = i;
  }
  return std::nullopt;
}

}  // namespace braid
