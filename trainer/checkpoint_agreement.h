// The choice of a checkpoint that all ranks of a run agree on.
#ifndef BRAID_TRAINER_CHECKPOINT_AGREEMENT_H_
#define BRAID_TRAINER_CHECKPOINT_AGREEMENT_H_

#include <filesystem>
#include <optional>
#include <ostream>

#include "absl/status/statusor.h"

namespace braid {

class Communicator;

// Returns the newest checkpoint in `checkpoints` that verifies: the same on every rank. Collective;
// each rank reads a share of every checkpoint that is looked at. Rank 0 reports each damaged one
// met on the way as a line on its `warnings`. nullopt when there is no checkpoint; DataLoss when
// there are some and none is good; other errors, such as too many open files, are returned.
absl::StatusOr<std::optional<std::filesystem::path>> AgreeOnNewestGoodCheckpoint(
    Communicator& communicator, const std::filesystem::path& checkpoints, std::ostream& warnings);

}  // namespace braid

#endif  // BRAID_TRAINER_CHECKPOINT_AGREEMENT_H_
