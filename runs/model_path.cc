#include "runs/model_path.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "formats/manifest.h"
#include "runs/checkpoint.h"
#include "runs/checkpoint_directory.h"
#include "runs/run_directory.h"

namespace braid {
namespace {

namespace fs = std::filesystem;

bool IsRun(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(RunDirectory(path).spec(), error);
}

absl::StatusOr<ModelPath> FromRun(const fs::path& run, std::ostream& warnings) {
  ASSIGN_OR_RETURN(const auto newest,
                   NewestGoodCheckpoint(RunDirectory(run).checkpoints(), warnings));
  if (!newest.has_value()) {
    return absl::NotFoundError(
        absl::StrCat(run.string(), " holds no checkpoint yet; wait for the run to save one"));
  }
  return ModelPath{*newest, run};
}

ModelPath FromCheckpoint(const fs::path& checkpoint) {
  const fs::path run = checkpoint.parent_path().parent_path();
  return {checkpoint, IsRun(run) ? std::optional(run) : std::nullopt};
}

}  // namespace

absl::StatusOr<ModelPath> FindModel(const fs::path& path, std::ostream& warnings) {
  std::error_code error;
  if (!fs::exists(path, error)) {
    return absl::NotFoundError(absl::StrCat("model ", path.string(), " does not exist"));
  }
  fs::path directory = fs::absolute(path).lexically_normal();
  if (directory.filename().empty()) directory = directory.parent_path();
  if (IsRun(directory)) return FromRun(directory, warnings);
  const absl::StatusOr<Manifest> manifest = Manifest::Load(directory);
  if (manifest.ok() && manifest->kind == kCheckpointKind) return FromCheckpoint(directory);
  if (!manifest.ok() && !absl::IsNotFound(manifest.status())) return manifest.status();
  return absl::NotFoundError(
      absl::StrCat(path.string(),
                   " is not a model directory: expected a run directory (with run.textproto) or "
                   "a checkpoint directory (with manifest.json of kind ",
                   kCheckpointKind, ")"));
}

}  // namespace braid
