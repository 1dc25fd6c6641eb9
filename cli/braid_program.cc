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

namespace {

// Runs the chosen command. Errors of the file system and of tokenizers that a command does not
// handle itself are reported as any other error.
absl::Status RunCommand(const braid::CommandLine& program) {
  try {
    return program.action();
  } catch (const std::filesystem::filesystem_error& error) {
    return braid::FilesystemError(error);
  } catch (const braid::TokenizationError& error) {
    return absl::InvalidArgumentError(error.what());
  }
}

}  // namespace

int braid::BraidMain(int argc, char** argv, const std::string& version) {
  braid::ReexecForBlas(argv);
  // Failed connections have messages of this program; gRPC's own log would precede them.
  setenv("GRPC_VERBOSITY", "NONE", /*overwrite=*/0);
  // A write beyond the file size limit then fails with an error that is reported, instead of
  // killing the process.
  signal(SIGXFSZ, SIG_IGN);
  braid::CommandLine program;
  braid::AddCommandTable(program);
  program.app.set_version_flag("--version", "braid " + version, "Print the version and exit");
  if (const auto end = braid::ParseArguments(program.app, "braid", argc, argv)) {
    return braid::CheckedOutput("braid", *end);
  }
  const absl::Status status = RunCommand(program);
  if (status.ok()) return braid::CheckedOutput("braid", braid::exit_code::kOk);
  std::cerr << "braid: " << braid::ErrorText(status) << std::endl;
  return braid::Interrupted() ? braid::exit_code::kInterrupted : braid::ExitCodeOf(status);
}
