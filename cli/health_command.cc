// The command "health".
#include <iostream>

#include "base/status_macros.h"
#include "cli/command.h"

namespace braid {
namespace {

absl::Status Health(Session& session) {
  ASSIGN_OR_RETURN(HealthClient client, session.Health());
  RETURN_IF_ERROR(client.Check());
  std::cout << (session.json ? "{\"status\": \"SERVING\"}" : "SERVING") << std::endl;
  return absl::OkStatus();
}

}  // namespace

void AddHealthCommand(CommandLine& program) {
  CLI::App* health = program.app.add_subcommand(
      "health", "Check whether a server is ready, for use as a health probe");
  health->footer("Example:\n  braid --server 127.0.0.1:7077 health");
  health->callback([&program] { program.action = [&program] { return Health(program.session); }; });
}

}  // namespace braid
