// The communicator of a run under mpirun or srun.
#ifndef BRAID_TRAINER_PARALLEL_MPI_COMMUNICATOR_H_
#define BRAID_TRAINER_PARALLEL_MPI_COMMUNICATOR_H_

#include <memory>

#include "absl/status/statusor.h"
#include "trainer/parallel/communicator.h"

namespace braid {

// Initializes MPI if this process was started by an MPI launcher, and returns its communicator,
// whose destructor finalizes MPI; otherwise returns a SingleProcess. Call it once, before any
// thread is started. FailedPrecondition when Slurm started several tasks that do not see each
// other.
absl::StatusOr<std::unique_ptr<Communicator>> JoinRanks();

}  // namespace braid

#endif  // BRAID_TRAINER_PARALLEL_MPI_COMMUNICATOR_H_
