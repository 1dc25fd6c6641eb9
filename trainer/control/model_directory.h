// From what a request calls a model to a directory of this machine.
#ifndef BRAID_TRAINER_CONTROL_MODEL_DIRECTORY_H_
#define BRAID_TRAINER_CONTROL_MODEL_DIRECTORY_H_

#include <filesystem>
#include <string>

#include "absl/status/statusor.h"
#include "trainer/control/run_store.h"

namespace braid {

// The directory of a run id, a run directory or a checkpoint directory. InvalidArgument when it
// is something else, NotFound when it is nothing.
absl::StatusOr<std::filesystem::path> ModelDirectory(const RunStore& runs,
                                                     const std::string& model);

bool IsRunDirectory(const std::filesystem::path& path);

// A path of a request as the programs that work for us, elsewhere, can use it.
std::string AbsolutePath(const std::string& path);

}  // namespace braid

#endif  // BRAID_TRAINER_CONTROL_MODEL_DIRECTORY_H_
