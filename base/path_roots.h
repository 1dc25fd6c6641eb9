// The directories that a server reads and writes on behalf of clients. A path from a client must
// lie beneath one of them.
//
// The kernel resolves the path (openat2 with RESOLVE_BENEATH and RESOLVE_NO_MAGICLINKS, Linux 5.6),
// component by component from the open root. So neither a symbolic link that leads out of the root
// nor one that is created during the lookup escapes it. Absolute links count as leading out,
// wherever they point.
//
//   ASSIGN_OR_RETURN(const PathRoots roots, PathRoots::Create({"/data"}, home));
//   RETURN_IF_ERROR(roots.Check(path));                          // when a request arrives
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
  // Allows every path: for a program that acts for the user who started it.
  PathRoots() = default;

  // `roots` must be directories. `hidden`, the server's own state, and everything beneath it cannot
  // be accessed, except through roots that lie within it; "" hides nothing.
  //
  // Errors: NOT_FOUND, INVALID_ARGUMENT; UNIMPLEMENTED on a kernel without openat2, because no
  // other check is safe against concurrent renames.
  static absl::StatusOr<PathRoots> Create(const std::vector<std::filesystem::path>& roots,
                                          const std::filesystem::path& hidden);

  // Checks that `path` is a file or directory beneath a root, or could be created there.
  // PERMISSION_DENIED outside of the roots; INVALID_ARGUMENT for a path that is relative, contains
  // "..", has more than 64 names or PATH_MAX bytes, and for a device, FIFO or socket.
  absl::Status Check(const std::filesystem::path& path) const;

  // Opens the file that is at `path` now; the caller closes the descriptor. Errors: those of Check
  // and of open(2).
  absl::StatusOr<int> Open(const std::filesystem::path& path, int flags) const;

  // Reads a whole file. INVALID_ARGUMENT if it is larger than `max_bytes`.
  absl::StatusOr<std::string> Read(const std::filesystem::path& path,
                                   size_t max_bytes = size_t{64} << 20) const;

 private:
  struct Root;

  // Returns a descriptor or -errno; -EXDEV for a path outside of the roots or hidden. `path` must
  // not contain doubled slashes.
  int OpenBeneath(std::string_view path, int flags) const;
  int OpenInRoot(const Root& root, std::string_view path, int flags) const;
  absl::Status Problem(const std::filesystem::path& path, int error) const;
  bool IsHidden(const std::string& actual) const;
  absl::Status Outside(const std::filesystem::path& path) const;

  std::vector<std::shared_ptr<const Root>> roots_;  // empty: every path is allowed
  std::string hidden_;
};

// Return and set the roots of this process. Every path is allowed until a server calls
// SetClientRoots, once, before it serves.
const PathRoots& ClientRoots();
void SetClientRoots(PathRoots roots);

// Returns `path` as an absolute, normalized path without a final slash, so that a process in
// another directory finds the same file; "" stays "".
std::string AbsolutePath(const std::string& path);

}  // namespace braid

#endif  // BRAID_BASE_PATH_ROOTS_H_
