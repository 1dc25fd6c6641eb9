#include "base/directory_use.h"

#include <fcntl.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "base/file_error.h"
#include "base/status_macros.h"

namespace braid {
namespace {

namespace fs = std::filesystem;

// A collision of two names only refuses a deletion that could be made.
struct flock LockOf(const std::string& name, short type) {
  struct flock lock = {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = ByteOfName(name);
  lock.l_len = 1;
  return lock;
}

fs::path UsesFile(const fs::path& home) { return home / "uses.lock"; }

}  // namespace

std::string DirectoryInHome(const fs::path& home, const fs::path& path) {
  std::error_code error;
  const fs::path inner = fs::weakly_canonical(fs::absolute(path, error), error);
  if (error || path.empty()) return "";
  for (const char* const part : {"store", "runs", "supervised"}) {
    const fs::path outer = fs::weakly_canonical(fs::absolute(home / part, error), error);
    if (error) continue;
    const fs::path relative = inner.lexically_relative(outer);
    if (relative.empty() || *relative.begin() == ".." || *relative.begin() == ".") continue;
    return (fs::path(part) / *relative.begin()).string();
  }
  return "";
}

absl::StatusOr<DirectoryUse> DirectoryUse::Share(const fs::path& home, const fs::path& path) {
  const std::string name = DirectoryInHome(home, path);
  if (name.empty()) return DirectoryUse();
  const fs::path file = UsesFile(home);
  int descriptor = open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
  // A user of the home of another user can share what it may only read.
  const bool may_write = descriptor >= 0;
  if (!may_write) descriptor = open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (descriptor < 0) {
    const bool read_only = errno == ENOENT || errno == EACCES || errno == EROFS;
    if (read_only) return DirectoryUse();
    return SystemError("open", file, errno);
  }
  DirectoryUse use(descriptor);
  const absl::StatusOr<bool> locked =
      LockBytes(file, LockOf(name, F_RDLCK), /*waits=*/true, &use.descriptors_);
  // The $BRAID_STATE of another user.
  if (!may_write && absl::IsPermissionDenied(locked.status())) return DirectoryUse();
  RETURN_IF_ERROR(locked.status());
  return use;
}

absl::StatusOr<std::optional<DirectoryUse>> DirectoryUse::TryReserve(const fs::path& home,
                                                                     const fs::path& path) {
  const fs::path file = UsesFile(home);
  const int descriptor = open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
  if (descriptor < 0) return SystemError("open", file, errno);
  DirectoryUse use(descriptor);
  ASSIGN_OR_RETURN(const bool locked, LockBytes(file, LockOf(DirectoryInHome(home, path), F_WRLCK),
                                                /*waits=*/false, &use.descriptors_));
  if (!locked) return std::nullopt;
  return std::optional(std::move(use));
}

}  // namespace braid
