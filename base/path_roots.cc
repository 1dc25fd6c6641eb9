#include "base/path_roots.h"

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
#include "base/file_error.h"
#include "base/status_macros.h"

namespace braid {
namespace {

namespace fs = std::filesystem;

// openat2 returns EAGAIN when a rename happens during the lookup of a ".."; the lookup is repeated.
constexpr int kAttempts = 100;

// Maximum names in a path of a client: each costs a lookup, and a request may contain many paths.
constexpr int kMaxComponents = 64;

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

// Returns the path of an open file as the kernel knows it.
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

// Removes doubled slashes, "//tmp///x" -> "/tmp/x"; the kernel regards both as equal.
std::string WithoutDoubledSlashes(std::string_view path) {
  std::string squeezed;
  for (const char c : path) {
    if (c != '/' || !squeezed.ends_with('/')) squeezed += c;
  }
  return squeezed;
}

// Returns `path` relative to `directory`; nullopt if it does not begin with it.
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

absl::Status BadPath(std::string_view path, std::string_view expected) {
  constexpr size_t kShown = 256;
  const std::string shown(path.substr(0, kShown));
  return absl::InvalidArgumentError(
      absl::StrCat("got the path \"", absl::CHexEscape(shown), path.size() > kShown ? "..." : "",
                   "\" of ", path.size(), " bytes, expected ", std::string(expected)));
}

// After a "..", a path depends on the links before it: code that normalizes it later would open
// another file than the one that was checked.
absl::Status CheckForm(std::string_view path) {
  if (!path.starts_with('/') || path.find('\0') != std::string_view::npos) {
    return BadPath(path, "an absolute one");
  }
  if (path.size() >= PATH_MAX) return BadPath(path, absl::StrCat("less than ", PATH_MAX));
  int components = 0;
  for (size_t begin = 0; begin < path.size();) {
    const size_t end = std::min(path.find('/', begin), path.size());
    const std::string_view name = path.substr(begin, end - begin);
    if (name == "..") return BadPath(path, "one without \"..\"");
    if (!name.empty() && ++components > kMaxComponents) {
      return BadPath(path, absl::StrCat("at most ", kMaxComponents, " names in it"));
    }
    begin = end + 1;
  }
  return absl::OkStatus();
}

absl::Status AsExisting(const absl::Status& missing, const fs::path& path) {
  return absl::IsNotFound(missing)
             ? absl::NotFoundError(absl::StrCat(path.string(), ": the directory does not exist"))
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

  const std::string given;   // absolute, as passed to Create
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
  if (made.roots_.empty())
    return absl::InvalidArgumentError("got no root directories, expected at least one");
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
  // Without /proc, or outside of this process's root directory, the real path is unknown.
  if (!actual.starts_with('/')) return true;
  if (!IsBeneath(actual, hidden_)) return false;
  // A root that is or contains the hidden directory reveals nothing about it.
  return std::ranges::none_of(roots_, [&](const auto& root) {
    return IsStrictlyBeneath(root->actual, hidden_) && IsBeneath(actual, root->actual);
  });
}

absl::Status PathRoots::Outside(const fs::path& path) const {
  std::vector<std::string> names;
  for (const auto& root : roots_) names.push_back(root->given);
  return absl::PermissionDeniedError(absl::StrCat(
      absl::CHexEscape(path.native()), ": outside of the directories that this server serves (",
      absl::StrJoin(names, ", "),
      "), or reached through a link that leaves them; move it there, or start braidd with --allow "
      "DIR"));
}

int PathRoots::OpenInRoot(const Root& root, std::string_view path, int flags) const {
  for (const std::string* name : {&root.given, &root.actual}) {
    const std::optional<std::string> rest = RelativeTo(path, *name);
    if (!rest) continue;
    const int descriptor = OpenAt2(root.descriptor, rest->c_str(), flags);
    if (descriptor < 0) return errno == ELOOP ? -EXDEV : -errno;
    if (!IsHidden(ActualPath(descriptor))) return descriptor;
    close(descriptor);
    return -EXDEV;
  }
  return -EXDEV;
}

int PathRoots::OpenBeneath(std::string_view path, int flags) const {
  int problem = -EXDEV;
  for (const auto& root : roots_) {
    const int descriptor = OpenInRoot(*root, path, flags);
    if (descriptor >= 0) return descriptor;
    if (descriptor != -EXDEV) problem = descriptor;
  }
  return problem;
}

absl::Status PathRoots::Problem(const fs::path& path, int error) const {
  return error == EXDEV ? Outside(path) : SystemError("open", path, error);
}

absl::Status PathRoots::Check(const fs::path& path) const {
  if (roots_.empty()) return absl::OkStatus();
  RETURN_IF_ERROR(CheckForm(path.native()));
  // A path that does not exist yet can be created if its nearest existing directory is beneath a
  // root and none of the names in between is a dangling link.
  std::string at = WithoutDoubledSlashes(path.native());
  while (!at.empty()) {
    const int found = OpenBeneath(at, O_PATH);
    if (found >= 0) {
      const absl::Cleanup close_it = [found] { close(found); };
      return CheckKind(found, path);
    }
    if (found != -ENOENT) return Problem(path, -found);
    const int link = OpenBeneath(at, O_PATH | O_NOFOLLOW);
    if (link >= 0) close(link);
    if (link >= 0 || at.ends_with("/.")) return Outside(path);
    // The last directory to look at is "/", which may be a root.
    at.resize(at == "/" ? 0 : std::max<size_t>(at.rfind('/'), 1));
  }
  return Outside(path);
}

absl::StatusOr<int> PathRoots::Open(const fs::path& path, int flags) const {
  if (roots_.empty()) {
    const int descriptor = open(path.c_str(), flags | O_CLOEXEC);
    if (descriptor < 0) return SystemError("open", path, errno);
    return descriptor;
  }
  RETURN_IF_ERROR(CheckForm(path.native()));
  const int descriptor = OpenBeneath(WithoutDoubledSlashes(path.native()), flags);
  if (descriptor < 0) return Problem(path, -descriptor);
  return descriptor;
}

absl::StatusOr<std::string> PathRoots::Read(const fs::path& path, size_t max_bytes) const {
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
    // Counts bytes instead of trusting the file size: files may grow, and those of /proc have none.
    if (content.size() > max_bytes) {
      return absl::InvalidArgumentError(absl::StrCat(absl::CHexEscape(path.native()),
                                                     ": got a larger file, expected at most ",
                                                     max_bytes, " bytes"));
    }
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

std::string AbsolutePath(const std::string& path) {
  if (path.empty()) return path;
  const std::filesystem::path normal = std::filesystem::absolute(path).lexically_normal();
  // "/runs/a/" and "/runs/a" name the same directory.
  return (normal.has_filename() ? normal : normal.parent_path()).string();
}

}  // namespace braid
