// The directory of a run's checkpoints: lists, verifies, publishes and removes them. Every change
// is one rename, so a process killed between any two system calls leaves only whole checkpoints,
// and names ending in .tmp that readers ignore.
#ifndef BRAID_RUNS_CHECKPOINT_DIRECTORY_H_
#define BRAID_RUNS_CHECKPOINT_DIRECTORY_H_

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace braid {

// Returns CHECKPOINTS/step-%08d.
std::filesystem::path CheckpointPath(const std::filesystem::path& checkpoints, int64_t step);

// Returns CHECKPOINTS/step-%08d.ATTEMPT.tmp, where the checkpoint is written first. `attempt`
// differs between processes that train the same run, so that a rank that outlives a killed attempt
// never writes into the files of the next.
std::filesystem::path StagingPath(const std::filesystem::path& checkpoints, int64_t step,
                                  const std::string& attempt);

// Returns the names of the checkpoints in `checkpoints`, newest first; empty when the directory
// does not exist.
absl::StatusOr<std::vector<std::string>> ListCheckpoints(const std::filesystem::path& checkpoints);

// Returns the steps of the checkpoints in `checkpoints`, newest first.
absl::StatusOr<std::vector<int64_t>> CheckpointSteps(const std::filesystem::path& checkpoints);

// Returns the step of a name that ListCheckpoints returned.
int64_t StepOfCheckpoint(const std::string& name);

// Returns the newest step with a checkpoint, good or damaged; 0 when there is none or the directory
// cannot be listed. Reads only names.
int64_t NewestCheckpointStep(const std::filesystem::path& checkpoints);

// Returns true for errors that mean that a checkpoint's files are not as they were written. Other
// errors, such as EIO or too many open files, do not indicate damage.
bool IsCheckpointDamage(const absl::Status& status);

// Verifies one checkpoint: sets `*damage` to what is wrong with it, OK when it is intact. Returns
// an error when it could not be verified.
using VerifyCheckpointFn =
    std::function<absl::Status(const std::filesystem::path& checkpoint, absl::Status* damage)>;

// Returns the first of `names` that verifies; nullopt when `names` is empty, DataLoss when all are
// damaged. Appends a sentence to `skipped` for each damaged checkpoint met on the way: "checkpoint
// DIRECTORY is damaged: CAUSE", where the cause names files within DIRECTORY.
absl::StatusOr<std::optional<std::filesystem::path>> FirstGoodCheckpoint(
    const std::filesystem::path& checkpoints, const std::vector<std::string>& names,
    const VerifyCheckpointFn& verify, std::vector<std::string>* skipped);

// Returns the newest checkpoint that verifies, as FirstGoodCheckpoint does. See
// trainer/checkpoint_agreement.h for the collective version, and FindModel (model_path.h) for the
// checkpoint of a model named by a user.
absl::StatusOr<std::optional<std::filesystem::path>> NewestGoodCheckpoint(
    const std::filesystem::path& checkpoints, std::vector<std::string>* skipped);

// Renames a complete `staging` directory to CheckpointPath(step). An existing, damaged checkpoint
// of that step is moved aside first and then removed.
absl::Status PublishCheckpoint(const std::filesystem::path& checkpoints, int64_t step,
                               const std::filesystem::path& staging);

// Which checkpoints to keep.
struct CheckpointRetention {
  int keep_last = 1;             // the newest ones, at least 1
  int64_t keep_every_steps = 0;  // all at multiples of this step; 0: none
  int64_t regular_steps = 0;     // the newest regular one; 0: none. See IsRegular
  int64_t branch_step = 0;       // a regular one as well; 0: none
  int64_t best_step = 0;         // the one of this step; 0: none
};

// Returns whether `retention` keeps the checkpoint of `step` however many newer ones there are: as
// the best, or as a multiple of keep_every_steps.
bool IsKeptForGood(const CheckpointRetention& retention, int64_t step);

// Returns whether the checkpoint of `step` is regular: at a multiple of regular_steps, or the one
// that a branch began with.
bool IsRegular(const CheckpointRetention& retention, int64_t step);

// Removes old checkpoints after that of `step` was published: of those up to `step`, keeps the ones
// that `retention` names. Later ones belong to another attempt and stay.
absl::Status RotateCheckpoints(const std::filesystem::path& checkpoints, int64_t step,
                               const CheckpointRetention& retention);

// Removes the checkpoints after `step` when a run resumes from it: damaged ones that were passed
// over.
absl::Status RemoveLaterCheckpoints(const std::filesystem::path& checkpoints, int64_t step);

// Removes staging directories of killed attempts. Must run before any rank of this attempt writes.
absl::Status RemoveLeftovers(const std::filesystem::path& checkpoints);

}  // namespace braid

#endif  // BRAID_RUNS_CHECKPOINT_DIRECTORY_H_
