// Finds the checkpoint to load for a path given by a user.
#ifndef BRAID_RUNS_MODEL_PATH_H_
#define BRAID_RUNS_MODEL_PATH_H_

#include <filesystem>
#include <optional>
#include <ostream>

#include "absl/status/statusor.h"

namespace braid {

struct ModelPath {
  std::filesystem::path checkpoint;
  // The run directory that contains the checkpoint, if there is one.
  std::optional<std::filesystem::path> run;
};

// Finds the model at `path`: a checkpoint directory, or a run directory, whose newest good
// checkpoint is used. Damaged ones are reported on `warnings`. NotFound, with what is expected
// there, when it is neither or holds no checkpoint yet.
absl::StatusOr<ModelPath> FindModel(const std::filesystem::path& path, std::ostream& warnings);

}  // namespace braid

#endif  // BRAID_RUNS_MODEL_PATH_H_
