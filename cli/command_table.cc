#include "cli/command_table.h"

#include <memory>

#include "cli/arguments.h"
#include "cli/help_formatter.h"
#include "rpc/executable_path.h"

namespace braid {
namespace {

constexpr char kConnection[] = "Connection to a server";
constexpr char kLaunch[] = "Local runs";

void AddGlobalOptions(CommandLine& program) {
  ConnectionOptions& options = program.session.options;
  options.home = DefaultHome();
  CLI::App& app = program.app;
  app.add_option("--home", options.home, "Directory of jobs, runs and all other state")
      ->check(NotEmpty("a directory"))
      ->envname("BRAID_HOME")
      ->capture_default_str();
  AddState(app, options.state);
  app.add_flag("--json", program.session.json, "Print machine-readable JSON to standard output");
  app.add_option("--server", options.server,
                 "Address of a braidd; without it, the command runs its services in this process")
      ->type_name("HOST:PORT")
      ->envname("BRAID_SERVER")
      ->group(kConnection);
  app.add_option("--token-file", options.token_file,
                 "File with the access token for the server, or for the servers that a local job "
                 "uses (default: $BRAID_TOKEN, or ~/.braid/token over TLS)")
      ->type_name("FILE")
      ->group(kConnection);
  app.add_option("--tls-ca", options.tls.ca,
                 "PEM file with the certificates that servers must chain to")
      ->type_name("FILE")
      ->group(kConnection);
  app.add_option("--tls-certificate", options.tls.certificate,
                 "PEM file with the client's certificate chain")
      ->type_name("FILE")
      ->group(kConnection);
  app.add_option("--tls-key", options.tls.key, "PEM file with the client's private key")
      ->type_name("FILE")
      ->group(kConnection);
  app.add_flag("--insecure", options.insecure, "Connect to a server beyond loopback without TLS")
      ->group(kConnection);
  app.add_option("--mpirun", options.mpirun, "Program that starts the ranks of a run")
      ->type_name("PROGRAM")
      ->capture_default_str()
      ->group(kLaunch);
  app.add_option("--remote-agent", options.remote_agent,
                 "Program that starts a command on another host, called as AGENT HOST COMMAND... "
                 "(default: ssh)")
      ->type_name("PROGRAM")
      ->group(kLaunch);
  app.require_subcommand(1);
  // Accepts global options after the command too.
  app.fallthrough();
}

// Adds the commands of `add` under a heading of the help.
void AddGroup(CommandLine& program, const char* heading,
              std::initializer_list<void (*)(CommandLine&)> add) {
  const size_t before = program.app.get_subcommands(nullptr).size();
  for (const auto add_command : add) add_command(program);
  const std::vector<CLI::App*> commands = program.app.get_subcommands(nullptr);
  for (size_t i = before; i < commands.size(); ++i) commands[i]->group(heading);
}

}  // namespace

void AddCommandTable(CommandLine& program) {
  CLI::App& app = program.app;
  app.name("braid");
  const auto formatter = std::make_shared<HelpFormatter>();
  formatter->label("SUBCOMMAND", "COMMAND");
  app.formatter(formatter);
  app.set_help_flag("-h,--help", "Print this help and exit");
  AddGlobalOptions(program);
  AddGroup(program, "Getting started",
           {AddQuickstartCommand, AddDoctorCommand, AddReproduceCommand});
  AddGroup(program, "Corpora and training",
           {AddCorpusCommands, AddRunCommands, AddFinetuneCommand, AddStatusCommands,
            AddDeleteCommands, AddExplainCommand});
  AddGroup(program, "Models",
           {AddGenerateCommand, AddEvalCommand, AddAnalyzeCommand, AddReportCommand,
            AddMetricsCommand, AddModelCommands, AddConvertCommand, AddExportCommands});
  AddGroup(program, "Servers", {AddHealthCommand, AddTokenCommand});
  // Hidden: packagers and shell configuration call them.
  AddGroup(program, "", {AddCompletionCommand, AddManCommand});
  app.footer(
      "Examples:\n"
      "  braid quickstart                      # train and compare four small models\n"
      "  braid submit corpus.jsonl.zst --wait  # prepare a corpus: job-000001\n"
      "  braid train --data job-000001 --preset tiny/8E --wait\n"
      "  braid generate run-000001 --prompt 'Once upon a time'\n"
      "\n"
      "Every command has its own help: 'braid COMMAND --help'.\n"
      "\n"
      "Exit codes: 0 success, 1 failure, 2 usage error, 3 not found, 4 server unreachable,\n"
      "130 interrupted.");
}

}  // namespace braid
