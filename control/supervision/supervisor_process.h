// The program that looks after a run, as a process that outlives the one that starts it.
#ifndef BRAID_CONTROL_SUPERVISION_SUPERVISOR_PROCESS_H_
#define BRAID_CONTROL_SUPERVISION_SUPERVISOR_PROCESS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "control/supervision/child_program.h"
#include "runs/run_directory.h"

namespace braid {

// Forks `supervisor` in a session of its own, to write to supervisor.log of the run; `options` go
// before the run's directory. It runs from ExecuteSupervisor on.
absl::StatusOr<ChildProgram> ForkSupervisor(const std::string& supervisor, const RunDirectory& run,
                                            const std::vector<std::string>& options = {});

// Lets it run, and waits for it in the background so that it does not stay a zombie for as long as
// we live.
absl::Status ExecuteSupervisor(ChildProgram& child);

}  // namespace braid

#endif  // BRAID_CONTROL_SUPERVISION_SUPERVISOR_PROCESS_H_
