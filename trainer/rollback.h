// The state that a run goes back to after a loss spike.
#ifndef BRAID_TRAINER_ROLLBACK_H_
#define BRAID_TRAINER_ROLLBACK_H_

#include <filesystem>
#include <ostream>
#include <string>

#include "absl/status/statusor.h"
#include "braid/v1/training.pb.h"
#include "trainer/parallel/communicator.h"
#include "trainer/training_state.h"

namespace braid {

// Returns the state of the newest good regular checkpoint, or the initial state when there is none.
// Regular checkpoints are those at multiples of checkpoint.every_steps, and the one that a branch
// began with: when they are written depends on the step alone, so a run that was interrupted goes
// back to where the uninterrupted run does. Checkpoints of stopped attempts are passed over.
//
// Collective. Requires that no checkpoint is being written. Damaged checkpoints are reported on
// `warnings`; errors as AgreeOnNewestGoodCheckpoint and RestoreState, the same on every rank.
absl::StatusOr<TrainingState> RollbackState(const v1::RunSpec& resolved,
                                            const std::filesystem::path& checkpoints,
                                            const std::string& data_key, Communicator& communicator,
                                            std::ostream& warnings);

}  // namespace braid

#endif  // BRAID_TRAINER_ROLLBACK_H_
