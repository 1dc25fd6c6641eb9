// quickstart
#include <filesystem>
#include <memory>

#include "absl/strings/str_cat.h"
#include "cli/command.h"
#include "cli/quickstart.h"

namespace braid {
namespace {

absl::Status RunQuickstartCommand(Session& session, QuickstartOptions options) {
  if (!session.embedded()) {
    return absl::InvalidArgumentError(
        "quickstart runs on this machine with its own state; leave out --server");
  }
  options.workdir = std::filesystem::absolute(options.workdir);
  for (std::string& path : options.paths) path = std::filesystem::absolute(path).string();
  session.options.home = options.workdir / "home";
  return RunQuickstart(session, options);
}

}  // namespace

void AddQuickstartCommand(Program& program) {
  auto options = std::make_shared<QuickstartOptions>();
  options->workdir = "braid-quickstart";
  CLI::App* command = program.app.add_subcommand(
      "quickstart", "The whole way once, on this machine's own text: about 8 minutes on 2 cores");
  command->add_option("--workdir", options->workdir, "Everything is written below it")
      ->capture_default_str();
  command->add_option("--corpus", options->paths, "Your own files or directories instead");
  command->add_option("--steps", options->num_steps, "Optimiser steps of each run")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  command->footer(
      "Gathers a corpus, orders it by similarity and at random, trains a dense model and an\n"
      "8-expert soft-MoE on each, and compares them on held-out text. Run it again to go on\n"
      "after an interruption.");
  command->callback([&program, options] {
    program.action = [&program, options] {
      return RunQuickstartCommand(program.session, *options);
    };
  });
}

}  // namespace braid
