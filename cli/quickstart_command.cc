// The command "quickstart".
#include <filesystem>
#include <memory>

#include "absl/strings/str_cat.h"
#include "base/path_roots.h"
#include "base/status_macros.h"
#include "cli/arguments.h"
#include "cli/command.h"
#include "cli/quickstart.h"

namespace braid {
namespace {

// Refuses another home on the command line. One in the environment is meant for other commands.
absl::Status CheckNoOtherHome(const CLI::App& app, const QuickstartOptions& options) {
  // CLI11 leaves options that the environment sets out of this list.
  for (const CLI::Option* const option : app.parse_order()) {
    const std::string name = option->get_name();
    if (name != "--home" && name != "--state") continue;
    return absl::InvalidArgumentError(
        absl::StrCat("quickstart: ", name, ": got ", option->results().back(),
                     ", expected nothing; its home is ", (options.workdir / "home").string(),
                     ", choose --workdir"));
  }
  return absl::OkStatus();
}

absl::Status RunQuickstartCommand(CommandLine& program, QuickstartOptions options) {
  Session& session = program.session;
  if (!session.embedded()) {
    return absl::InvalidArgumentError(
        "quickstart: cannot be combined with --server, since it runs on this machine with its "
        "own state");
  }
  options.workdir = std::filesystem::absolute(options.workdir);
  RETURN_IF_ERROR(CheckNoOtherHome(program.app, options));
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
    program.action = [&program, options] { return RunQuickstartCommand(program, *options); };
  });
}

}  // namespace braid
