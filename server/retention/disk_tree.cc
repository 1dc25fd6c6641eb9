#include "server/retention/disk_tree.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstdio>
#include <system_error>

#include "base/atomic_file.h"
#include "base/file_error.h"
#include "base/status_macros.h"

namespace braid {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kBlockBytes = 512;  // the unit of st_blocks

int64_t OwnBytes(const fs::path& path) {
  struct stat status;
  if (lstat(path.c_str(), &status) != 0) return 0;
  // Directories have further links from their subdirectories, which share no blocks.
  const bool shared = !S_ISDIR(status.st_mode) && status.st_nlink > 1;
  return shared ? 0 : static_cast<int64_t>(status.st_blocks) * kBlockBytes;
}

}  // namespace

int64_t DiskBytes(const fs::path& tree) {
  int64_t bytes = OwnBytes(tree);
  std::error_code error;
  for (fs::recursive_directory_iterator entry(tree, error), end; !error && entry != end;
       entry.increment(error)) {
    bytes += OwnBytes(entry->path());
  }
  return bytes;
}

absl::Status RenameAside(const fs::path& directory, const fs::path& aside) {
  struct stat status;
  if (lstat(directory.c_str(), &status) != 0 && errno == ENOENT) return absl::OkStatus();
  // Left by an interrupted deletion; rename does not replace a directory that is not empty.
  RETURN_IF_ERROR(RemoveTree(aside));
  if (rename(directory.c_str(), aside.c_str()) != 0) return SystemError("rename", directory, errno);
  return SyncPath(directory.parent_path());
}

}  // namespace braid
