// braid: the command line.
#include <signal.h>

#include <filesystem>
#include <iostream>

#include "base/blas_core.h"
#include "cli/arguments.h"
#include "cli/command.h"
#include "client/terminal/terminal_text.h"
#include "rpc/executable_path.h"
#include "rpc/interrupt.h"

namespace {

void AddGlobalOptions(braid::Program& program) {
  braid::ConnectionOptions& options = program.session.options;
  options.home = braid::DefaultHome();
  CLI::App& app = program.app;
  app.add_option("--home", options.home, "Directory of all state ($BRAID_HOME)")
      ->capture_default_str();
  app.add_option("--server", options.server,
                 "HOST:PORT of a braidd; without it everything runs here")
      ->envname("BRAID_SERVER");
  app.add_flag("--json", program.session.json, "Machine-readable output");
  app.add_option("--tls-certificate", options.tls.certificate, "PEM certificate chain");
  app.add_option("--tls-key", options.tls.key, "PEM private key");
  app.add_option("--tls-ca", options.tls.ca, "PEM certificates that servers must chain to");
  app.add_option("--token-file", options.token_file,
                 "File with the token for --server, or for the servers of a job that runs here "
                 "(default: $BRAID_TOKEN, or ~/.braid/token over TLS); never the token itself, "
                 "which others could read");
  app.add_flag("--insecure", options.insecure, "Talk to a server beyond loopback without TLS");
  app.add_option("--mpirun", options.mpirun, "Program that starts the ranks of a run")
      ->capture_default_str();
  app.add_option("--remote-agent", options.remote_agent,
                 "Program that starts a command on another host, as AGENT HOST COMMAND... (ssh)");
  app.set_version_flag("--version", "braid " BRAID_VERSION);
  app.require_subcommand(1);
  // --json and --home may stand behind the command too.
  app.fallthrough();
  app.footer(
      "Start here:\n"
      "  braid quickstart\n"
      "  braid submit corpus.jsonl.zst --wait\n"
      "  braid train --data job-000001 --preset tiny/8E --wait\n"
      "Exit codes: 0 done, 1 failed, 2 usage, 3 not found, 4 server unreachable, 130 interrupted");
}

void AddCommands(braid::Program& program) {
  braid::AddQuickstartCommand(program);
  braid::AddCorpusCommands(program);
  braid::AddRunCommands(program);
  braid::AddStatusCommands(program);
  braid::AddExplainCommand(program);
  braid::AddEvalCommand(program);
  braid::AddAnalyzeCommand(program);
  braid::AddGenerateCommand(program);
  braid::AddReportCommand(program);
  braid::AddMetricsCommand(program);
  braid::AddModelCommands(program);
  braid::AddExportCommands(program);
  braid::AddReproduceCommand(program);
  braid::AddGatherCommand(program);
  braid::AddDoctorCommand(program);
  braid::AddTokenCommand(program);
  braid::AddHealthCommand(program);
}

// Every command; what the file system refuses where nobody looked is an error like others.
absl::Status Act(const braid::Program& program) {
  try {
    return program.action();
  } catch (const std::filesystem::filesystem_error& error) {
    return absl::InvalidArgumentError(error.what());
  }
}

}  // namespace

int main(int argc, char** argv) {
  braid::ReexecForBlas(argv);
  // A file size limit then fails the write, which is reported, instead of ending the process.
  signal(SIGXFSZ, SIG_IGN);
  braid::Program program;
  AddGlobalOptions(program);
  AddCommands(program);
  if (const auto end = braid::ParseArguments(program.app, "braid", argc, argv)) return *end;
  const absl::Status status = Act(program);
  if (status.ok()) return braid::exit_code::kOk;
  std::cerr << "braid: " << braid::ErrorText(status) << std::endl;
  return braid::Interrupted() ? braid::exit_code::kInterrupted : braid::ExitCodeOf(status);
}
