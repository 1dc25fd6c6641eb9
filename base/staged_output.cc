#include "base/staged_output.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <string>
#include <system_error>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/file_error.h"
#include "base/random_id.h"
#include "base/status_macros.h"

namespace braid {
namespace {

namespace fs = std::filesystem;

constexpr char kLockName[] = "lock";
constexpr size_t kIdDigits = 16;
constexpr size_t kMaxPrefixBytes = 200;  // names of files have at most 255

fs::path DirectoryOf(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : ".";
}

// Returns what the names of all staging directories for `path` begin with.
std::string StagingPrefix(const fs::path& path) {
  return absl::StrCat(".", path.filename().string().substr(0, kMaxPrefixBytes), ".braid-");
}

bool IsStagingName(absl::string_view name, const std::string& prefix) {
  return absl::ConsumePrefix(&name, prefix) && name.size() == kIdDigits &&
         std::ranges::all_of(name, absl::ascii_isxdigit);
}

// The lock goes last: what a killed process leaves here can then be removed later.
void RemoveStaging(const fs::path& root) {
  if (RemoveTree(root / "files").ok()) RemoveTree(root).IgnoreError();
}

void RemoveIfAbandoned(const fs::path& root) {
  if (rmdir(root.c_str()) == 0) return;  // its process was killed before it created the lock
  std::error_code error;
  if (!fs::exists(root / kLockName, error)) return;
  const absl::StatusOr<std::optional<FileLock>> lock = FileLock::TryTake(root / kLockName);
  if (lock.ok() && lock->has_value()) RemoveStaging(root);
}

}  // namespace

void RemoveAbandonedStaging(const fs::path& path) {
  const std::string prefix = StagingPrefix(path);
  std::vector<fs::path> found;
  std::error_code error;
  for (fs::directory_iterator entry(DirectoryOf(path), error), end; !error && entry != end;
       entry.increment(error)) {
    std::error_code gone;
    if (!IsStagingName(entry->path().filename().string(), prefix)) continue;
    if (entry->symlink_status(gone).type() == fs::file_type::directory) {
      found.push_back(entry->path());
    }
  }
  std::ranges::for_each(found, RemoveIfAbandoned);
}

absl::StatusOr<std::unique_ptr<StagingDirectory>> StagingDirectory::Create(const fs::path& path) {
  const fs::path directory = DirectoryOf(path);
  const std::string prefix = StagingPrefix(path);
  RemoveAbandonedStaging(path);
  while (true) {
    const fs::path root = directory / (prefix + RandomId(kIdDigits));
    if (mkdir(root.c_str(), 0777) != 0) return SystemError("create", path, errno);
    absl::StatusOr<std::optional<FileLock>> lock = FileLock::TryTake(root / kLockName);
    std::error_code error;
    const bool has_lock_file = fs::exists(root / kLockName, error);
    if (!lock.ok() && !has_lock_file && !absl::IsNotFound(lock.status())) {
      rmdir(root.c_str());
      return lock.status();
    }
    // Another process, which removes leftovers, found the directory before it was locked.
    if ((lock.ok() && !lock->has_value()) || !has_lock_file) continue;
    std::unique_ptr<StagingDirectory> staging(
        new StagingDirectory(root, lock.ok() ? *std::move(lock) : std::nullopt));
    RETURN_IF_ERROR(MakeDirectories(staging->path()));
    return staging;
  }
}

StagingDirectory::~StagingDirectory() { RemoveStaging(root_); }

absl::Status CreatedParents::Create(const fs::path& directory) {
  return MakeDirectories(directory, &created_);
}

CreatedParents::~CreatedParents() {
  // rmdir() leaves a directory that holds anything, such as the output or that of another program.
  while (!created_.empty() && rmdir(created_.back().c_str()) == 0) created_.pop_back();
}

absl::StatusOr<std::unique_ptr<UserFile>> UserFile::Create(const fs::path& path) {
  RETURN_IF_ERROR(CheckReplaceableFile(path));
  ASSIGN_OR_RETURN(auto staging, StagingDirectory::Create(path));
  ASSIGN_OR_RETURN(auto file, AtomicFile::Create(staging->path() / path.filename()));
  return std::unique_ptr<UserFile>(new UserFile(path, std::move(staging), std::move(file)));
}

absl::Status UserFile::Commit() {
  RETURN_IF_ERROR(file_->Commit().status());
  if (rename(file_->path().c_str(), path_.c_str()) != 0) {
    return SystemError("replace", path_, errno);
  }
  staging_.reset();
  return SyncPath(DirectoryOf(path_));
}

absl::Status WriteUserFile(const fs::path& path, std::string_view data) {
  ASSIGN_OR_RETURN(const auto file, UserFile::Create(path));
  RETURN_IF_ERROR(file->Append(data));
  return file->Commit();
}

}  // namespace braid
