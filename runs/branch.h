// Branches of a run: a new run that continues from a checkpoint of the constant part of another
// run's learning rate, and decays it to the end. One stable run thus gives models of many lengths
// (arXiv 2405.18392).
#ifndef BRAID_RUNS_BRANCH_H_
#define BRAID_RUNS_BRANCH_H_

#include <cstdint>
#include <filesystem>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "braid/v1/training.pb.h"
#include "runs/checkpoint_directory.h"
#include "runs/run_directory.h"

namespace braid {

struct BranchPoint {
  std::string run;   // id or directory
  int64_t step = 0;  // at least 1
};

// Parses "run-000001@12000". InvalidArgument for anything else.
absl::StatusOr<BranchPoint> ParseBranchPoint(const std::string& text);

// Returns the step of the checkpoint that a run began with: 0 unless it is a branch. Errors as
// ParseBranchPoint.
absl::StatusOr<int64_t> FirstStep(const v1::RunSpec& spec);

// Returns the checkpoints that a run with the resolved `spec` keeps, apart from its best. With
// ROLLBACK these include the newest regular one, to which it returns at a loss spike. Errors as
// ParseBranchPoint.
absl::StatusOr<CheckpointRetention> RetentionOf(const v1::RunSpec& spec);

// Returns the checkpoint of `run` at `step`. NotFound names the nearest steps that have one
// and that a branch may begin at.
absl::StatusOr<std::filesystem::path> FindBranchCheckpoint(const RunDirectory& run, int64_t step);

// Returns the spec of a branch at `step` of a run with the resolved spec `source`. The number of
// steps follows from the decay: a share f of the whole branch gives step / (1 - f), rounded up; a
// length is added to `step`. Warm-up, dense warm-up and growth keep their steps.
//
// `asked` may set optimizer.decay (default 0.1), optimizer.final_lr_ratio, name, launch, ranks,
// supervision, checkpoints, validation, spikes and other settings that do not change the model or
// the data; InvalidArgument names any other field, the ranks where the batch of `source` grows in
// multiples of them, and the steps of the dense warm-up or of the batch's growth where the branch
// would end within them. FailedPrecondition when the learning rate of `source` is not constant at
// `step`, naming the steps where it is.
absl::StatusOr<v1::RunSpec> BranchSpec(const v1::RunSpec& source, int64_t step,
                                       const v1::RunSpec& asked);

// Makes `checkpoint` the first checkpoint of `branch`, with hard links where the file system has
// them, and verifies it. The copy names the same base as `checkpoint`. Does nothing when the branch
// has it already. DataLoss when it is damaged.
absl::Status CopyBranchCheckpoint(const std::filesystem::path& checkpoint,
                                  const RunDirectory& branch);

}  // namespace braid

#endif  // BRAID_RUNS_BRANCH_H_
