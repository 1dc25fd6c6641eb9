// Resolves the model of a request to a directory on this machine.
#ifndef BRAID_CONTROL_MODEL_DIRECTORY_H_
#define BRAID_CONTROL_MODEL_DIRECTORY_H_

#include <filesystem>
#include <string>

#include "absl/status/statusor.h"
#include "control/run_store.h"

namespace braid {

// Returns the directory of a run id, a run directory or a checkpoint directory, followed by "@ema"
// where `model` is. InvalidArgument when `model` is something else, NotFound when it does not
// exist.
absl::StatusOr<std::filesystem::path> ModelDirectory(const RunStore& runs,
                                                     const std::string& model);

}  // namespace braid

#endif  // BRAID_CONTROL_MODEL_DIRECTORY_H_
