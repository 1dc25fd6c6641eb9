#include "inference/output_directory.h"

#include <fcntl.h>

#include <cerrno>
#include <cstdio>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
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

absl::Status CheckReplaceable(const OutputPlace& place) {
  const fs::path& path = place.path;
  std::error_code error;
  if (!fs::exists(fs::symlink_status(path, error))) return absl::OkStatus();
  if (!fs::is_directory(path, error)) {
    return absl::AlreadyExistsError(absl::StrCat(path.string(), " exists and is not a directory"));
  }
  // The result replaces the path itself by renaming, which a link to a directory does not survive.
  if (fs::is_symlink(path, error)) {
    return absl::FailedPreconditionError(absl::StrCat(
        path.string(), " is a link; remove it first, or name the directory that it leads to"));
  }
  if (fs::is_empty(path, error) && !error) return absl::OkStatus();
  if (!place.force) {
    return absl::AlreadyExistsError(
        absl::StrCat(path.string(), " exists; choose another directory or use --force"));
  }
  return place.check_replaceable(path);
}

// Exchanges two directories. Where the file system cannot do that, `path` is renamed to `aside`
// first, and back if the new directory cannot be renamed.
absl::Status Exchange(const fs::path& content, const fs::path& path, const fs::path& aside) {
  if (renameat2(AT_FDCWD, content.c_str(), AT_FDCWD, path.c_str(), RENAME_EXCHANGE) == 0) {
    return SyncPath(path.parent_path());
  }
  if (errno != EINVAL && errno != ENOSYS) return SystemError("replace", path, errno);
  if (rename(path.c_str(), aside.c_str()) != 0) return SystemError("rename", path, errno);
  const absl::Status published = PublishDirectory(content, path);
  if (!published.ok()) (void)rename(aside.c_str(), path.c_str());
  return published;
}

}  // namespace

absl::StatusOr<std::unique_ptr<OutputDirectory>> OutputDirectory::Create(const OutputPlace& place) {
  if (place.path.empty())
    return absl::InvalidArgumentError("output_dir: got none, expected a directory");
  OutputPlace absolute = place;
  absolute.path = Absolute(place.path);
  RETURN_IF_ERROR(CheckReplaceable(absolute));
  CreatedParents parents;
  RETURN_IF_ERROR(parents.Create(absolute.path.parent_path()));
  ASSIGN_OR_RETURN(auto directory, StagingDirectory::Create(absolute.path));
  std::unique_ptr<OutputDirectory> output(
      new OutputDirectory(std::move(absolute), std::move(parents), std::move(directory)));
  RETURN_IF_ERROR(MakeDirectories(output->staging_));
  return output;
}

absl::Status OutputDirectory::Publish(const fs::path& content) {
  RETURN_IF_ERROR(CheckReplaceable(place_));
  const absl::Status published = PublishDirectory(content, path_);
  if (!absl::IsAlreadyExists(published)) return published;
  // Checks again, since another program may have published PATH in the meantime.
  RETURN_IF_ERROR(CheckReplaceable(place_));
  return Exchange(content, path_, directory_->path() / "old");
}

}  // namespace braid
