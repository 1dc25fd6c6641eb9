// braid: the command line.
#include <signal.h>

#include <cstdlib>
#include <filesystem>
#include <iostream>

#include "base/blas_core.h"
#include "cli/arguments.h"
#include "cli/command_table.h"
#include "cli/programs.h"
#include "client/terminal/terminal_text.h"
#include "formats/piece_scanner.h"
#include "rpc/interrupt.h"

namespace braid {
namespace {

// Runs the chosen command. Errors of the file system and of tokenizers that a command does not
// handle itself are reported as any other error.
absl::Status RunCommand(const CommandLine& program) {
  try {
    return program.action();
  } catch (const std::filesystem::filesystem_error& error) {
    return FilesystemError(error);
  } catch (const TokenizationError& error) {
    return absl::InvalidArgumentError(error.what());
  }
}

}  // namespace

int BraidMain(int argc, char** argv, const std::string& version) {
  ReexecForBlas(argv);
  // Failed connections have messages of this program; gRPC's own log would precede them.
  setenv("GRPC_VERBOSITY", "NONE", /*overwrite=*/0);
  // A write beyond the file size limit then fails with an error that is reported, instead of
  // killing the process.
  signal(SIGXFSZ, SIG_IGN);
  CommandLine program;
  AddCommandTable(program);
  program.app.set_version_flag("--version", "braid " + version, "Print the version and exit");
  if (const auto end = ParseArguments(program.app, "braid", argc, argv)) {
    return CheckedOutput("braid", *end);
  }
  const absl::Status status = RunCommand(program);
  if (status.ok()) return CheckedOutput("braid", exit_code::kOk);
  std::cerr << "braid: " << ErrorText(status) << std::endl;
  return Interrupted() ? exit_code::kInterrupted : ExitCodeOf(status);
}

}  // namespace braid
