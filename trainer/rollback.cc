#include "trainer/rollback.h"

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "runs/branch.h"
#include "runs/checkpoint_directory.h"
#include "trainer/checkpoint_agreement.h"

namespace braid {
namespace {

absl::StatusOr<std::filesystem::path> RollbackCheckpoint(const CheckpointRetention& retention,
                                                         int64_t spike_step,
                                                         const std::filesystem::path& checkpoints,
                                                         Communicator& communicator,
                                                         std::ostream& warnings) {
  const auto is_regular = [&](int64_t step) { return IsRegular(retention, step); };
  ASSIGN_OR_RETURN(const auto checkpoint,
                   AgreeOnNewestGoodCheckpoint(communicator, checkpoints, warnings, is_regular));
  if (!checkpoint.has_value()) {
    return absl::DataLossError(absl::StrCat("rollback: got no checkpoint in ", checkpoints.string(),
                                            ", expected one from before the loss spike at step ",
                                            spike_step, "; start the run again"));
  }
  const int64_t step = StepOfCheckpoint(checkpoint->filename().string());
  if (communicator.rank() == 0 && !is_regular(step)) {
    warnings << "no good regular checkpoint is left in " << checkpoints.string()
             << "; rolling back to that of step " << step << std::endl;
  }
  return *checkpoint;
}

}  // namespace

absl::StatusOr<TrainingState> RollbackState(const v1::RunSpec& resolved, int64_t spike_step,
                                            const std::filesystem::path& checkpoints,
                                            const std::string& data_key, Communicator& communicator,
                                            std::ostream& warnings) {
  const int rank = communicator.rank();
  ASSIGN_OR_RETURN(const CheckpointRetention retention, RetentionOf(resolved));
  const auto agree = [&](absl::StatusOr<TrainingState> state) -> absl::StatusOr<TrainingState> {
    // A rank that cannot read what the others can must not leave them waiting in the next step.
    RETURN_IF_ERROR(AgreeOnStatus(communicator, state.status()));
    return state;
  };
  // Before the first regular checkpoint there is only the initial state, which the spec determines.
  const bool from_start = retention.branch_step == 0 && spike_step <= retention.regular_steps;
  if (from_start) return agree(InitialState(resolved, rank));
  ASSIGN_OR_RETURN(const std::filesystem::path checkpoint,
                   RollbackCheckpoint(retention, spike_step, checkpoints, communicator, warnings));
  return agree(RestoreState(checkpoint, resolved, data_key, rank));
}

}  // namespace braid
