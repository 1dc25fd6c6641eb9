// The directory that holds a run's checkpoints: which there are, which is the
// newest good one, publishing and removing. Every change is one rename, so that a
// process killed between any two system calls leaves whole checkpoints and names
// ending in .tmp, which no reader looks at.
#ifndef BRAID_RUNS_CHECKPOINT_DIRECTORY_H_
#define BRAID_RUNS_CHECKPOINT_DIRECTORY_H_

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace braid {

// CHECKPOINTS/step-%08d.
std::filesystem::path CheckpointPath(const std::filesystem::path& checkpoints, int64_t step);

// CHECKPOINTS/step-%08d.ATTEMPT.tmp, where it is written first. `attempt` differs
// between processes that train the same run, so that a rank which outlived a
// killed attempt never writes into the files of the next.
std::filesystem::path StagingPath(const std::filesystem::path& checkpoints, int64_t step,
                                  const std::string& attempt);

// Names of the checkpoints in `checkpoints`, newest first; empty when the directory does not exist.
absl::StatusOr<std::vector<std::string>> ListCheckpoints(const std::filesystem::path& checkpoints);

// True for errors that mean that a checkpoint's files are not as they were written. Other errors,
// such as too many open files, say nothing about the checkpoint.
bool IsCheckpointDamage(const absl::Status& status);

// Sets `*damage` to what is wrong with one checkpoint, OK when it verifies. Returns an error when
// that could not be found out.
using VerifyCheckpointFn =
    std::function<absl::Status(const std::filesystem::path& checkpoint, absl::Status* damage)>;

// Returns the first of `names` that verifies; nullopt when `names` is empty and DataLoss when none
// of them is good. Reports each damaged checkpoint met on the way as a line on `warnings`.
absl::StatusOr<std::optional<std::filesystem::path>> FirstGoodCheckpoint(
    const std::filesystem::path& checkpoints, const std::vector<std::string>& names,
    const VerifyCheckpointFn& verify, std::ostream& warnings);

// Returns the newest checkpoint that verifies. See trainer/checkpoint_agreement.h for the
// collective version.
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

#endif  // BRAID_RUNS_CHECKPOINT_DIRECTORY_H_
