#include "formats/path_roots.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "formats/file_error.h"
#include "formats/status_macros.h"

namespace braid {
namespace {

namespace fs = std::filesystem;

// A ".." beside a rename is told as EAGAIN: to be tried again.
constexpr int kAttempts = 100;

int OpenAt2(int directory, const char* path, int flags) {
  open_how how = {};
  how.flags = static_cast<uint64_t>(flags | O_CLOEXEC);
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS;
  for (int i = 0; i < kAttempts; ++i) {
    const long descriptor = syscall(SYS_openat2, directory, path, &how, sizeof how);
    if (descriptor >= 0 || errno != EAGAIN) return static_cast<int>(descriptor);
  }
  return -1;
}

// The name that the kernel has for an open file.
std::string ActualPath(int descriptor) {
  char name[PATH_MAX];
  const ssize_t size =
      readlink(absl::StrCat("/proc/self/fd/", descriptor).c_str(), name, sizeof name);
  return size < 0 ? "" : std::string(name, static_cast<size_t>(size));
}

bool IsBeneath(std::string_view path, std::string_view directory) {
  return path.starts_with(directory) && (path.size() == directory.size() ||
                                         directory.ends_with('/') || path[directory.size()] == '/');
}

bool IsStrictlyBeneath(std::string_view path, std::string_view directory) {
  return path.size() > directory.size() && IsBeneath(path, directory);
}

// "//tmp///x" -> "/tmp/x", which is the same to the kernel; ".." is left to it.
std::string WithoutDoubledSlashes(std::string_view path) {
  std::string squeezed;
  for (const char c : path) {
    if (c != '/' || !squeezed.ends_with('/')) squeezed += c;
  }
  return squeezed;
}

// `path` as seen from `directory`; nullopt when it does not begin with it.
std::optional<std::string> RelativeTo(std::string_view path, std::string_view directory) {
  if (!IsBeneath(path, directory)) return std::nullopt;
  path.remove_prefix(directory.size());
  while (path.starts_with('/')) path.remove_prefix(1);
  return path.empty() ? "." : std::string(path);
}

absl::Status CheckKind(int descriptor, const fs::path& path) {
  struct stat status;
  if (fstat(descriptor, &status) != 0) return SystemError("read", path, errno);
  if (S_ISREG(status.st_mode) || S_ISDIR(status.st_mode)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(absl::CHexEscape(path.native()),
                   ": got a device, FIFO, socket or link, expected a file or "
                   "directory"));
}

absl::Status CheckAbsolute(const fs::path& path) {
  if (path.is_absolute() && path.native().find('\0') == std::string::npos) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("got the path \"", absl::CHexEscape(path.native()),
                                                 "\", expected an absolute one"));
}

absl::Status AsExisting(const absl::Status& missing, const fs::path& path) {
  return absl::IsNotFound(missing)
             ? absl::NotFoundError(absl::StrCat(path.string(), ": no such directory to allow"))
             : missing;
}

}  // namespace

struct PathRoots::Root {
  Root(std::string given_path, int open_descriptor)
      : given(std::move(given_path)),
        actual(ActualPath(open_descriptor)),
        descriptor(open_descriptor) {}
  ~Root() { close(descriptor); }
  Root(const Root&) = delete;
  Root& operator=(const Root&) = delete;

  const std::string given;   // absolute, as it was named
  const std::string actual;  // without symbolic links
  const int descriptor;
};

absl::StatusOr<PathRoots> PathRoots::Create(const std::vector<fs::path>& roots,
                                            const fs::path& hidden) {
  PathRoots made;
  for (const fs::path& root : roots) {
    fs::path given = fs::absolute(root).lexically_normal();
    if (!given.has_filename() && given.has_parent_path()) given = given.parent_path();
    const int descriptor = open(given.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (descriptor < 0) return AsExisting(SystemError("open", given, errno), given);
    made.roots_.push_back(std::make_shared<Root>(given.string(), descriptor));
  }
  if (made.roots_.empty()) return absl::InvalidArgumentError("no directory is allowed");
  const int probe = OpenAt2(made.roots_[0]->descriptor, ".", O_PATH);
  if (probe < 0 && errno == ENOSYS) {
    return absl::UnimplementedError(
        "this kernel has no openat2 (Linux 5.6), without which paths of clients cannot be "
        "confined");
  }
  if (probe >= 0) close(probe);
  if (hidden.empty()) return made;
  std::error_code error;
  made.hidden_ = fs::weakly_canonical(fs::absolute(hidden), error).string();
  if (error) return SystemError("resolve", hidden, error.value());
  if (!made.hidden_.ends_with('/') || made.hidden_ == "/") return made;
  made.hidden_.pop_back();
  return made;
}

bool PathRoots::IsHidden(const std::string& actual) const {
  if (hidden_.empty()) return false;
  // Without /proc, or out of this process's root: where it lies is not known.
  if (!actual.starts_with('/')) return true;
  if (!IsBeneath(actual, hidden_)) return false;
  // A root that is the hidden directory, or has it within, reveals nothing of it.
  return std::ranges::none_of(roots_, [&](const auto& root) {
    return IsStrictlyBeneath(root->actual, hidden_) && IsBeneath(actual, root->actual);
  });
}

absl::Status PathRoots::Outside(const fs::path& path) const {
  std::vector<std::string> names;
  for (const auto& root : roots_) names.push_back(root->given);
  return absl::PermissionDeniedError(
      absl::StrCat(absl::CHexEscape(path.native()), ": outside of what this server serves (",
                   absl::StrJoin(names, ", "),
                   "), or a link out of it; put it there, or start braidd with --allow DIR"));
}

absl::StatusOr<int> PathRoots::OpenBeneath(const fs::path& path, int flags) const {
  absl::Status problem = Outside(path);
  const std::string plain = WithoutDoubledSlashes(path.native());
  for (const auto& root : roots_) {
    for (const std::string& name : {root->given, root->actual}) {
      const std::optional<std::string> rest = RelativeTo(plain, name);
      if (!rest) continue;
      const int descriptor = OpenAt2(root->descriptor, rest->c_str(), flags);
      if (descriptor >= 0 && !IsHidden(ActualPath(descriptor))) return descriptor;
      if (descriptor >= 0) {
        close(descriptor);
      } else if (errno != EXDEV && errno != ELOOP) {
        problem = SystemError("open", path, errno);
      }
    }
  }
  return problem;
}

absl::Status PathRoots::Check(const fs::path& path) const {
  if (roots_.empty()) return absl::OkStatus();
  RETURN_IF_ERROR(CheckAbsolute(path));
  // What is not there yet can be made if the nearest directory that is there is beneath a
  // root; none of the names on the way may be a link that leads nowhere, nor go back up.
  for (fs::path at = path;; at = at.parent_path()) {
    const absl::StatusOr<int> found = OpenBeneath(at, O_PATH);
    if (found.ok()) {
      const absl::Cleanup close_it = [&] { close(*found); };
      return CheckKind(*found, path);
    }
    if (!absl::IsNotFound(found.status())) return found.status();
    const absl::StatusOr<int> link = OpenBeneath(at, O_PATH | O_NOFOLLOW);
    if (link.ok()) close(*link);
    if (link.ok() || at.filename() == ".." || at.filename() == "." || !at.has_parent_path() ||
        at == at.parent_path()) {
      return Outside(path);
    }
  }
}

absl::StatusOr<int> PathRoots::Open(const fs::path& path, int flags) const {
  if (roots_.empty()) {
    const int descriptor = open(path.c_str(), flags | O_CLOEXEC);
    if (descriptor < 0) return SystemError("open", path, errno);
    return descriptor;
  }
  RETURN_IF_ERROR(CheckAbsolute(path));
  return OpenBeneath(path, flags);
}

absl::StatusOr<std::string> PathRoots::Read(const fs::path& path) const {
  ASSIGN_OR_RETURN(const int descriptor, Open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY));
  const absl::Cleanup close_it = [descriptor] { close(descriptor); };
  RETURN_IF_ERROR(CheckKind(descriptor, path));
  std::string content;
  std::string piece(size_t{1} << 16, '\0');
  while (true) {
    const ssize_t size = read(descriptor, piece.data(), piece.size());
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) return SystemError("read", path, errno);
    if (size == 0) return content;
    content.append(piece, 0, static_cast<size_t>(size));
  }
}

namespace {
PathRoots& MutableClientRoots() {
  static auto* const roots = new PathRoots;
  return *roots;
}
}  // namespace

const PathRoots& ClientRoots() { return MutableClientRoots(); }
void SetClientRoots(PathRoots roots) { MutableClientRoots() = std::move(roots); }

}  // namespace braid
