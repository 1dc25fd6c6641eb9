// From what a request calls a model to a directory of this machine.
#ifndef BRAID_CONTROL_MODEL_DIRECTORY_H_
#define BRAID_CONTROL_MODEL_DIRECTORY_H_

#include <filesystem>
#include <string>

#include "absl/status/statusor.h"
#include "control/run_store.h"

namespace braid {

// The directory of a run id, a run directory or a checkpoint directory. InvalidArgument when it
// is something else, NotFound when it is nothing.
absl::StatusOr<std::filesystem::path> ModelDirectory(const RunStore& runs,
                                                     const std::string& model);

bool IsRunDirectory(const std::filesystem::path& path);

}  // namespace braid

#endif  // BRAID_CONTROL_MODEL_DIRECTORY_H_
