#include "inference/output_directory.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/atomic_file.h"
#include "base/file_error.h"
#include "base/status_macros.h"

namespace braid {
namespace {

namespace fs = std::filesystem;

fs::path Absolute(const fs::path& path) {
  const fs::path normal = fs::absolute(path).lexically_normal();
  return normal.has_filename() ? normal : normal.parent_path();
}

fs::path Beside(const fs::path& path, const char* ending) {
  fs::path name = path;
  return name += ending;
}

absl::Status CheckReplaceable(const fs::path& path, const OutputPlace& place) {
  std::error_code error;
  if (!fs::exists(fs::symlink_status(path, error))) return absl::OkStatus();
  if (!fs::is_directory(path, error)) {
    return absl::AlreadyExistsError(absl::StrCat(path.string(), " exists and is not a directory"));
  }
  if (fs::is_empty(path, error) && !error) return absl::OkStatus();
  if (!place.force) {
    return absl::AlreadyExistsError(
        absl::StrCat(path.string(), " exists; choose another directory or use --force"));
  }
  const bool written = std::ranges::any_of(
      place.markers, [&](const std::string& marker) { return fs::exists(path / marker, error); });
  if (written && !fs::is_symlink(path, error)) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(path.string(), " has no ", absl::StrJoin(place.markers, " or "),
                   ", so it was not written by this command; remove it first"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<OutputDirectory>> OutputDirectory::Create(const OutputPlace& place) {
  if (place.path.empty())
    return absl::InvalidArgumentError("output_dir: got none, expected a directory");
  const fs::path path = Absolute(place.path);
  RETURN_IF_ERROR(CheckReplaceable(path, place));
  std::unique_ptr<OutputDirectory> output(new OutputDirectory(path, Beside(path, ".tmp")));
  RETURN_IF_ERROR(RemoveTree(output->staging_));
  RETURN_IF_ERROR(MakeDirectories(output->staging_));
  return output;
}

OutputDirectory::~OutputDirectory() { (void)RemoveTree(staging_); }

absl::Status OutputDirectory::Publish(const fs::path& content) {
  const fs::path aside = Beside(path_, ".old.tmp");
  std::error_code error;
  if (!fs::exists(path_, error) || fs::is_empty(path_, error)) {
    return PublishDirectory(content, path_);
  }
  RETURN_IF_ERROR(RemoveTree(aside));
  fs::rename(path_, aside, error);
  if (error) return SystemError("rename", path_, error.value());
  const absl::Status status = PublishDirectory(content, path_);
  if (!status.ok()) {
    fs::rename(aside, path_, error);
    return status;
  }
  return RemoveTree(aside);
}

}  // namespace braid
