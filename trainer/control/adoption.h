// A run that has lost its supervisor gets another, from whoever looks.
#ifndef BRAID_TRAINER_CONTROL_ADOPTION_H_
#define BRAID_TRAINER_CONTROL_ADOPTION_H_

#include <string>

#include "absl/status/statusor.h"
#include "trainer/run_directory.h"

namespace braid {

// Starts `supervisor --adopt RUN_DIR` in a session of its own for a run of this machine that was
// launched and has not ended, when its supervisor is dead; returns whether it did. The supervisor
// adopts the live mpirun, or starts the run again where that is gone too, unless it was asked to
// stop. Cheap when there is nothing to do: a few small files. Any number of programs may call it
// at once: supervisor.lock lets one of their supervisors through. Left alone are runs of other
// machines, and of schedulers, which start theirs themselves.
// FailedPrecondition when the supervisor cannot be executed.
absl::StatusOr<bool> EnsureSupervised(const std::string& supervisor, const RunDirectory& run);

}  // namespace braid

#endif  // BRAID_TRAINER_CONTROL_ADOPTION_H_
