// The command "quickstart".
#include <filesystem>
#include <memory>

#include "base/path_roots.h"
#include "cli/arguments.h"
#include "cli/command.h"
#include "cli/quickstart.h"

namespace braid {
namespace {

absl::Status RunQuickstartCommand(Session& session, QuickstartOptions options) {
  if (!session.embedded()) {
    return absl::InvalidArgumentError(
        "quickstart: cannot be combined with --server, since it runs on this machine with its "
        "own state");
  }
  options.workdir = std::filesystem::absolute(options.workdir);
  for (std::string& path : options.paths) path = AbsolutePath(path);
  session.options.home = options.workdir / "home";
  session.options.state.clear();
  return RunQuickstart(session, options);
}

}  // namespace

void AddQuickstartCommand(CommandLine& program) {
  auto options = std::make_shared<QuickstartOptions>();
  options->workdir = "braid-quickstart";
  CLI::App* command = program.app.add_subcommand(
      "quickstart",
      "Train and compare four small models on this machine's text (about 2 minutes on 2 cores)");
  command
      ->add_option("--workdir", options->workdir,
                   "Directory for all output and for its own home and state")
      ->capture_default_str();
  command->add_option("--corpus", options->paths,
                      "Files or directories of text to use instead of this machine's text");
  command->add_option("--steps", options->num_steps, "Optimizer steps per run")
      ->capture_default_str()
      ->check(PositiveInt64());
  command->footer(
      "Gathers a corpus, orders it by similarity and at random, trains a dense model and a\n"
      "soft-MoE with 8 experts on each, and compares them on held-out text. Repeat the command to\n"
      "continue after an interruption.\n"
      "\n"
      "Examples:\n"
      "  braid quickstart\n"
      "  braid quickstart --corpus notes/ --steps 200 --workdir /tmp/quickstart");
  command->callback([&program, options] {
    program.action = [&program, options] {
      return RunQuickstartCommand(program.session, *options);
    };
  });
}

}  // namespace braid
