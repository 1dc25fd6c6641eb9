#include "pipeline/store/file_version.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/file_error.h"

namespace braid {
namespace {

const char* KindName(mode_t mode) {
  if (S_ISFIFO(mode)) return "a FIFO";
  if (S_ISSOCK(mode)) return "a socket";
  if (S_ISCHR(mode) || S_ISBLK(mode)) return "a device";
  return S_ISDIR(mode) ? "a directory" : "a special file";
}

FileVersion VersionOf(const struct stat& status) {
  return {.device = status.st_dev,
          .inode = status.st_ino,
          .bytes = status.st_size,
          .modified_ns = int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec};
}

std::string ChangeBetween(const FileVersion& before, const FileVersion& now) {
  if (now.device != before.device || now.inode != before.inode) return "a different file";
  if (now.bytes == before.bytes) return "modified content of the same length";
  return absl::StrCat(now.bytes, " bytes instead of ", before.bytes);
}

}  // namespace

absl::StatusOr<FileVersion> ReadableFileVersion(const std::filesystem::path& path) {
  struct stat status;
  if (stat(path.c_str(), &status) != 0) return SystemError("read", path, errno);
  if (!S_ISREG(status.st_mode)) {
    return absl::InvalidArgumentError(
        absl::StrCat("corpus path ", path.string(), ": got ", KindName(status.st_mode),
                     ", expected a file or directory; write the data to a file first"));
  }
  if (faccessat(AT_FDCWD, path.c_str(), R_OK, AT_EACCESS) != 0) {
    return SystemError("read", path, errno);
  }
  return VersionOf(status);
}

absl::Status CheckUnchanged(const std::filesystem::path& path, const FileVersion& version) {
  struct stat status;
  const bool exists = stat(path.c_str(), &status) == 0;
  if (exists && VersionOf(status) == version) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("corpus file ", path.string(), " changed while it was read: got ",
                   exists ? ChangeBetween(version, VersionOf(status)) : "no file",
                   ", expected the file as it was listed; resume the job when the corpus is "
                   "complete"));
}

}  // namespace braid
