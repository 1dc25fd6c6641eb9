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

// Returns the newest undamaged checkpoint in `checkpoints` whose step `preferred` accepts,
// otherwise the newest undamaged one; nullopt if the directory has no checkpoints. All ranks must
// call this function, and all get the same result. Each rank reads a part of every checkpoint that
// is verified. Rank 0 writes a line to `warnings` for each damaged checkpoint. Errors:
//   DataLoss: every checkpoint is damaged.
//   Unavailable: reading failed with EIO, and may succeed after a restart.
//   Other codes: the error of the failed call, such as ResourceExhausted for too many open files.
absl::StatusOr<std::optional<std::filesystem::path>> AgreeOnNewestGoodCheckpoint(
    Communicator& communicator, const std::filesystem::path& checkpoints, std::ostream& warnings,
    const std::function<bool(int64_t step)>& preferred = [](int64_t) { return true; });

}  // namespace braid

#endif  // BRAID_TRAINER_CHECKPOINT_AGREEMENT_H_
