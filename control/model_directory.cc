#include "control/model_directory.h"

#include <system_error>

#include "absl/strings/str_cat.h"
#include "base/path_roots.h"

namespace braid {
namespace {

bool Exists(const std::filesystem::path& path) {
  std::error_code error;
  return std::filesystem::exists(path, error);
}

bool IsCheckpoint(const std::filesystem::path& path) { return Exists(path / "model.textproto"); }

}  // namespace

bool IsRunDirectory(const std::filesystem::path& path) { return Exists(path / "run.textproto"); }

absl::StatusOr<std::filesystem::path> ModelDirectory(const RunStore& runs,
                                                     const std::string& model) {
  if (model.empty()) return absl::InvalidArgumentError("model: name a run or a directory");
  if (const absl::StatusOr<RunRecord> run = runs.Get(model); run.ok()) return run->run_dir;
  const std::filesystem::path path = AbsolutePath(model);
  if (IsRunDirectory(path) || IsCheckpoint(path)) return path;
  if (Exists(path)) {
    return absl::InvalidArgumentError(
        absl::StrCat(path.string(), " is not a model: it holds neither run.textproto (a run) nor ",
                     "model.textproto (a checkpoint)"));
  }
  return absl::NotFoundError(absl::StrCat("\"", model, "\" is neither a run nor a directory; ",
                                          "`braid runs` lists the runs"));
}

}  // namespace braid
