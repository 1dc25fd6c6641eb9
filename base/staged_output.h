// Output at paths that users choose. It is written in a hidden directory beside its path and then
// renamed, so it appears completely or not at all, and no file of the user is overwritten or
// removed but the one at the path itself. (Within directories that belong to braid, AtomicFile
// writes PATH.tmp instead.)
//
//   RETURN_IF_ERROR(WriteUserFile("report.html", page));
#ifndef BRAID_BASE_STAGED_OUTPUT_H_
#define BRAID_BASE_STAGED_OUTPUT_H_

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/atomic_file.h"
#include "base/file_lock.h"

namespace braid {

// A new directory on the file system of PATH = DIR/NAME. Any number of threads and processes may
// have one for the same PATH at a time.
//
// On disk it is DIR/.NAME.braid-RANDOM/files, with RANDOM of 16 hexadecimal digits; NAME is cut to
// 200 bytes. The file "lock" beside "files" is locked by the process that writes. Where that lock
// is free, the process was killed, and the next Create() for PATH removes the directory. On a file
// system without locks it stays.
class StagingDirectory {
 public:
  // Creates the directory in DIR, which must exist. Errors: those of SystemError with PATH.
  static absl::StatusOr<std::unique_ptr<StagingDirectory>> Create(
      const std::filesystem::path& path);

  StagingDirectory(const StagingDirectory&) = delete;
  StagingDirectory& operator=(const StagingDirectory&) = delete;
  // Removes the directory with its content.
  ~StagingDirectory();

  std::filesystem::path path() const { return root_ / "files"; }

 private:
  StagingDirectory(std::filesystem::path root, std::optional<FileLock> lock)
      : root_(std::move(root)), lock_(std::move(lock)) {}

  const std::filesystem::path root_;
  const std::optional<FileLock> lock_;  // nullopt on a file system without locks
};

// Removes what killed processes left of the output at PATH. Its directory need not exist.
void RemoveAbandonedStaging(const std::filesystem::path& path);

// The missing parents of an output, which are created for it.
class CreatedParents {
 public:
  CreatedParents() = default;
  CreatedParents(CreatedParents&&) = default;
  // Removes the directories that it created, as far as they are empty.
  ~CreatedParents();

  // Creates `directory` and its missing parents. Requires: called once.
  absl::Status Create(const std::filesystem::path& directory);

 private:
  std::vector<std::filesystem::path> created_;  // outer ones first
};

// A file that is being written to a path that a user chose. Not thread-safe. Of several writers to
// one path, the last Commit() wins.
class UserFile {
 public:
  // Errors: those of AtomicFile::Create.
  static absl::StatusOr<std::unique_ptr<UserFile>> Create(const std::filesystem::path& path);

  absl::Status Append(std::string_view data) { return file_->Append(data); }
  // Publishes the file, durably. Requires: called once.
  absl::Status Commit();

  const std::filesystem::path& path() const { return path_; }
  int64_t size() const { return file_->size(); }

 private:
  UserFile(std::filesystem::path path, std::unique_ptr<StagingDirectory> staging,
           std::unique_ptr<AtomicFile> file)
      : path_(std::move(path)), staging_(std::move(staging)), file_(std::move(file)) {}

  const std::filesystem::path path_;
  std::unique_ptr<StagingDirectory> staging_;
  std::unique_ptr<AtomicFile> file_;  // within staging_
};

// Writes a whole file as UserFile does.
absl::Status WriteUserFile(const std::filesystem::path& path, std::string_view data);

}  // namespace braid

#endif  // BRAID_BASE_STAGED_OUTPUT_H_
