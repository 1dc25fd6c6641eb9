// eval tasks
#include "cli/commands/command.h"

namespace braid {

void AddEvalTasks(Program&, CLI::App*) {}

}  // namespace braid
