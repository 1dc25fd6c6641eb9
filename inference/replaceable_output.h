// Which directories a command may replace with --force: those that hold only what it writes.
#ifndef BRAID_INFERENCE_REPLACEABLE_OUTPUT_H_
#define BRAID_INFERENCE_REPLACEABLE_OUTPUT_H_

#include <filesystem>
#include <functional>
#include <string>

#include "absl/status/status.h"

namespace braid {

// Returns FailedPrecondition: the directory may not be replaced because it `has` something, such as
// "is not a checkpoint".
absl::Status RefuseToReplace(const std::filesystem::path& directory, const std::string& has);

// Refuses a directory that holds anything but files whose names are `known`.
absl::Status CheckHoldsOnly(const std::filesystem::path& directory,
                            const std::function<bool(const std::string& name)>& known);

// Refuses a directory that is not a checkpoint, or holds files that neither its manifest lists nor
// conversions write, and the checkpoints of runs.
absl::Status CheckHoldsOnlyACheckpoint(const std::filesystem::path& directory);

// Returns FailedPrecondition when `output` is the checkpoint `base`, or one whose weights that one
// needs in turn: checkpoints of adapters do not hold the weights of their base. `base` may be "".
absl::Status CheckKeepsBase(const std::filesystem::path& output, const std::string& base);

}  // namespace braid

#endif  // BRAID_INFERENCE_REPLACEABLE_OUTPUT_H_
