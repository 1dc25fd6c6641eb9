// Selection of the checkpoint from which all ranks of a run resume.
#ifndef BRAID_TRAINER_CHECKPOINT_AGREEMENT_H_
#define BRAID_TRAINER_CHECKPOINT_AGREEMENT_H_

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <ostream>

#include "absl/status/statusor.h"

namespace braid {

class Communicator;

// Returns the newest checkpoint in `checkpoints` that verifies and whose step `preferred` accepts,
// or else the newest of the others, the same on every rank. Collective; each rank reads a share of
// every checkpoint that is examined. Rank 0 writes a line about each damaged checkpoint to its
// `warnings`. Returns nullopt if there is no checkpoint. Errors: DataLoss if all checkpoints are
// damaged; Unavailable after EIO, because a restarted run may be able to read the file; otherwise
// that of the failed call, such as ResourceExhausted for too many open files.
absl::StatusOr<std::optional<std::filesystem::path>> AgreeOnNewestGoodCheckpoint(
    Communicator& communicator, const std::filesystem::path& checkpoints, std::ostream& warnings,
    const std::function<bool(int64_t step)>& preferred = [](int64_t) { return true; });

}  // namespace braid

#endif  // BRAID_TRAINER_CHECKPOINT_AGREEMENT_H_
