#include "control/model_directory.h"

#include <system_error>

#include "absl/strings/str_cat.h"
#include "base/path_roots.h"
#include "base/status_macros.h"
#include "runs/model_path.h"

namespace braid {

absl::StatusOr<std::filesystem::path> ModelDirectory(const RunStore& runs,
                                                     const std::string& model) {
  if (model.empty()) return absl::InvalidArgumentError("model: name a run or a directory");
  if (const WeightsReference reference = SplitReference(model); reference.average) {
    ASSIGN_OR_RETURN(std::filesystem::path path, ModelDirectory(runs, reference.model));
    return path += model.substr(reference.model.size());
  }
  const absl::StatusOr<RunRecord> run = runs.Get(model);
  if (run.ok()) return run->run_dir;
  if (!absl::IsNotFound(run.status())) return run.status();
  const std::filesystem::path path = AbsolutePath(model);
  if (IsModelDirectory(path)) return path;
  std::error_code error;
  if (std::filesystem::exists(path, error)) {
    return absl::InvalidArgumentError(
        absl::StrCat(path.string(), " is not a model: it holds neither run.textproto (a run) nor ",
                     "model.textproto (a checkpoint)", ImportHint(path)));
  }
  return absl::NotFoundError(absl::StrCat("\"", model, "\" is neither a run nor a directory; ",
                                          "list runs with: braid runs"));
}

}  // namespace braid
