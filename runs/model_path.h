// From what a person calls a model to the checkpoint to load.
#ifndef BRAID_RUNS_MODEL_PATH_H_
#define BRAID_RUNS_MODEL_PATH_H_

#include <filesystem>
#include <optional>
#include <ostream>

#include "absl/status/statusor.h"

namespace braid {

struct ModelPath {
  std::filesystem::path checkpoint;
  // The run directory it belongs to, when there is one.
  std::optional<std::filesystem::path> run;
};

// `path` is a checkpoint directory, or a run directory, whose newest good
// checkpoint is taken; damaged ones are named on `warnings`. NotFound when it is
// neither or holds no checkpoint yet, saying what was expected there.
absl::StatusOr<ModelPath> FindModel(const std::filesystem::path& path, std::ostream& warnings);

}  // namespace braid

#endif  // BRAID_RUNS_MODEL_PATH_H_
