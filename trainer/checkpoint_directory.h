// The directory that holds a run's checkpoints: which there are, which is the
// newest good one, publishing and removing. Every change is one rename, so that a
// process killed between any two system calls leaves whole checkpoints and names
// ending in .tmp, which no reader looks at.
#ifndef BRAID_TRAINER_CHECKPOINT_DIRECTORY_H_
#define BRAID_TRAINER_CHECKPOINT_DIRECTORY_H_

#include <cstdint>
#include <filesystem>
#include <optional>
#include <ostream>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "trainer/communicator.h"

namespace braid {

// CHECKPOINTS/step-%08d.
std::filesystem::path CheckpointPath(const std::filesystem::path& checkpoints, int64_t step);

// CHECKPOINTS/step-%08d.ATTEMPT.tmp, where it is written first. `attempt` differs
// between processes that train the same run, so that a rank which outlived a
// killed attempt never writes into the files of the next.
std::filesystem::path StagingPath(const std::filesystem::path& checkpoints, int64_t step,
                                  const std::string& attempt);

// The newest checkpoint that verifies, the same on every rank; the ranks share the reading.
// Each damaged one met on the way is named in a line on rank 0's `warnings`. nullopt when
// there is none at all; DataLoss when there are some and none is good. Other errors, such as
// too many open files, say nothing about a checkpoint and are returned.
absl::StatusOr<std::optional<std::filesystem::path>> NewestGoodCheckpoint(
    Communicator& communicator, const std::filesystem::path& checkpoints, std::ostream& warnings);

// The same for one process.
absl::StatusOr<std::optional<std::filesystem::path>> NewestGoodCheckpoint(
    const std::filesystem::path& checkpoints, std::ostream& warnings);

// Renames a complete `staging` directory to CheckpointPath(step). One of that step that is
// there already, passed over as damaged, is moved aside and removed.
absl::Status PublishCheckpoint(const std::filesystem::path& checkpoints, int64_t step,
                               const std::filesystem::path& staging);

// After publishing the one of `step`: removes those before it but for `keep_last` - 1. Later ones,
// which are another attempt's, stay.
absl::Status RotateCheckpoints(const std::filesystem::path& checkpoints, int64_t step,
                               int keep_last);

// When a run resumes from the one of `step`: removes those of later steps, damaged ones that were
// passed over.
absl::Status RemoveLaterCheckpoints(const std::filesystem::path& checkpoints, int64_t step);

// Removes what killed attempts left behind. Before any rank of this one writes.
absl::Status RemoveLeftovers(const std::filesystem::path& checkpoints);

}  // namespace braid

#endif  // BRAID_TRAINER_CHECKPOINT_DIRECTORY_H_
