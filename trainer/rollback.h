// The state that a run goes back to after a loss spike.
#ifndef BRAID_TRAINER_ROLLBACK_H_
#define BRAID_TRAINER_ROLLBACK_H_

#include <cstdint>
#include <filesystem>
#include <ostream>
#include <string>

#include "absl/status/statusor.h"
#include "braid/v1/training.pb.h"
#include "trainer/parallel/communicator.h"
#include "trainer/training_state.h"

namespace braid {

// Returns the state that a run goes back to after a loss spike at `spike_step`: the newest good
// regular checkpoint, or the initial state if the run began at step 0 and the spike comes before
// the first regular checkpoint. Regular checkpoints are those at multiples of
// checkpoint.every_steps, and the one that a branch began with: when they are written depends on
// the step alone, so a run that was interrupted goes back to where the uninterrupted run does.
// Checkpoints of stopped attempts are passed over, unless no good regular one is left; that is
// reported on `warnings`.
//
// Collective. Requires the policy ROLLBACK, and that no checkpoint is being written. Damaged
// checkpoints are reported on `warnings`; DataLoss when no checkpoint is left; other errors as
// AgreeOnNewestGoodCheckpoint and RestoreState, the same on every rank.
absl::StatusOr<TrainingState> RollbackState(const v1::RunSpec& resolved, int64_t spike_step,
                                            const std::filesystem::path& checkpoints,
                                            const std::string& data_key, Communicator& communicator,
                                            std::ostream& warnings);

}  // namespace braid

#endif  // BRAID_TRAINER_ROLLBACK_H_
