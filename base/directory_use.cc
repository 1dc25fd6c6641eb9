#include "base/directory_use.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "base/byte_lock.h"
#include "base/file_error.h"

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
  DirectoryUse use(open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644));
  // A user of the home of another user can share what it may only read.
  if (use.descriptor_ < 0) use.descriptor_ = open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (use.descriptor_ < 0) {
    const bool read_only = errno == ENOENT || errno == EACCES || errno == EROFS;
    if (read_only) return DirectoryUse();
    return SystemError("open", file, errno);
  }
  const int error_number = LockBytes(file, LockOf(name, F_RDLCK), /*waits=*/true, &use.descriptor_);
  if (error_number != 0) return SystemError("lock", file, error_number);
  return use;
}

absl::StatusOr<std::optional<DirectoryUse>> DirectoryUse::TryReserve(const fs::path& home,
                                                                     const fs::path& path) {
  const fs::path file = UsesFile(home);
  DirectoryUse use(open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644));
  if (use.descriptor_ < 0) return SystemError("open", file, errno);
  const int error_number = LockBytes(file, LockOf(DirectoryInHome(home, path), F_WRLCK),
                                     /*waits=*/false, &use.descriptor_);
  if (error_number == 0) return std::optional(std::move(use));
  if (error_number == EAGAIN || error_number == EACCES) return std::nullopt;
  return SystemError("lock", file, error_number);
}

DirectoryUse::DirectoryUse(DirectoryUse&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)) {}

DirectoryUse& DirectoryUse::operator=(DirectoryUse&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

DirectoryUse::~DirectoryUse() {
  if (descriptor_ >= 0) close(descriptor_);
}

}  // namespace braid
