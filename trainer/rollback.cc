#include "trainer/rollback.h"

#include <cstdint>
#include <utility>

#include "base/status_macros.h"
#include "runs/branch.h"
#include "trainer/checkpoint_agreement.h"

namespace braid {

absl::StatusOr<TrainingState> RollbackState(const v1::RunSpec& resolved,
                                            const std::filesystem::path& checkpoints,
                                            const std::string& data_key, Communicator& communicator,
                                            std::ostream& warnings) {
  int64_t branch_step = 0;
  if (!resolved.branch_from().empty()) {
    ASSIGN_OR_RETURN(const BranchPoint point, ParseBranchPoint(resolved.branch_from()));
    branch_step = point.step;
  }
  const auto is_regular = [&](int64_t step) {
    return step % resolved.checkpoint().every_steps() == 0 || step == branch_step;
  };
  ASSIGN_OR_RETURN(const auto checkpoint,
                   AgreeOnNewestGoodCheckpoint(communicator, checkpoints, warnings, is_regular));
  const int rank = communicator.rank();
  auto state = checkpoint.has_value() ? RestoreState(*checkpoint, resolved, data_key, rank)
                                      : InitialState(resolved, rank);
  RETURN_IF_ERROR(AgreeOnStatus(communicator, state.status()));
  return state;
}

}  // namespace braid
