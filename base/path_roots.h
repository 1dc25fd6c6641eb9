// The directories that a server reads and writes for its clients: a path of a client names
// something beneath one of them, or is refused.
//
// The kernel resolves the path (openat2 with RESOLVE_BENEATH and RESOLVE_NO_MAGICLINKS, Linux
// 5.6), component by component from the open root, so neither a symbolic link that
// leads out, nor one that is put in place while it looks, gets past. An absolute link is taken
// for one that leads out, wherever it points.
//
//   ASSIGN_OR_RETURN(const PathRoots roots, PathRoots::Create({"/data"}, home));
//   RETURN_IF_ERROR(roots.Check(path));                        // when a request comes
//   ASSIGN_OR_RETURN(const int fd, roots.Open(path, O_RDONLY));  // when it is used, maybe later
#ifndef BRAID_BASE_PATH_ROOTS_H_
#define BRAID_BASE_PATH_ROOTS_H_

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace braid {

// Thread-safe; copies share the open directories.
class PathRoots {
 public:
  // Everything: for a program that acts for the user who started it.
  PathRoots() = default;

  // `roots` must be directories. Neither `hidden` nor anything beneath it is found, but for the
  // roots that lie within it: for the server's own state. "" hides nothing. NOT_FOUND,
  // INVALID_ARGUMENT; UNIMPLEMENTED on a kernel without openat2, because anything less could be
  // raced.
  static absl::StatusOr<PathRoots> Create(const std::vector<std::filesystem::path>& roots,
                                          const std::filesystem::path& hidden);

  // Whether `path` is a file or directory beneath a root, or could be made there.
  // PERMISSION_DENIED outside of the roots; INVALID_ARGUMENT for a path that is relative, has "..",
  // more than 64 names or PATH_MAX bytes, and for a device, FIFO or socket.
  absl::Status Check(const std::filesystem::path& path) const;

  // Opens what is at `path` now; the caller closes the descriptor. The errors of Check, and
  // those of open.
  absl::StatusOr<int> Open(const std::filesystem::path& path, int flags) const;

  // The whole file, which has at most `max_bytes`: INVALID_ARGUMENT beyond.
  absl::StatusOr<std::string> Read(const std::filesystem::path& path,
                                   size_t max_bytes = size_t{64} << 20) const;

 private:
  struct Root;

  // A descriptor, or -errno; -EXDEV for what lies outside, or is hidden. `path` without doubled
  // slashes.
  int OpenBeneath(std::string_view path, int flags) const;
  int OpenInRoot(const Root& root, std::string_view path, int flags) const;
  absl::Status Problem(const std::filesystem::path& path, int error) const;
  bool IsHidden(const std::string& actual) const;
  absl::Status Outside(const std::filesystem::path& path) const;

  std::vector<std::shared_ptr<const Root>> roots_;  // none: everything
  std::string hidden_;
};

// Those of this process; everything, until a server has set them, once, before it serves.
const PathRoots& ClientRoots();
void SetClientRoots(PathRoots roots);

// Returns `path` as an absolute, normalized path without a final slash, so that a process in another
// directory finds the same file; "" stays "".
std::string AbsolutePath(const std::string& path);

}  // namespace braid

#endif  // BRAID_BASE_PATH_ROOTS_H_
