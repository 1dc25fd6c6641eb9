// Starts braid-supervisor as a process that outlives the one that starts it.
#ifndef BRAID_CONTROL_SUPERVISION_SUPERVISOR_PROCESS_H_
#define BRAID_CONTROL_SUPERVISION_SUPERVISOR_PROCESS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "control/supervision/child_program.h"
#include "runs/run_directory.h"

namespace braid {

// Forks `supervisor OPTIONS RUN_DIR` in a new session, with its output appended to supervisor.log
// of the run. The program runs once ExecuteSupervisor is called.
absl::StatusOr<ChildProgram> ForkSupervisor(const std::string& supervisor, const RunDirectory& run,
                                            const std::vector<std::string>& options = {});

// Executes the program, and collects its exit status in the background so that it does not remain a
// zombie while this process lives.
absl::Status ExecuteSupervisor(ChildProgram& child);

}  // namespace braid

#endif  // BRAID_CONTROL_SUPERVISION_SUPERVISOR_PROCESS_H_
