#include "base/client_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/file_error.h"
#include "base/path_roots.h"
#include "base/status_macros.h"

namespace braid {

ClientFile::ClientFile(std::filesystem::path path, int descriptor)
    : path_(std::move(path)), descriptor_(descriptor) {}

ClientFile::~ClientFile() { close(descriptor_); }

absl::StatusOr<std::unique_ptr<const ClientFile>> ClientFile::Open(
    const std::filesystem::path& path) {
  // Without O_NONBLOCK, opening a FIFO would block until it has a writer.
  ASSIGN_OR_RETURN(const int descriptor,
                   ClientRoots().Open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY));
  std::unique_ptr<ClientFile> file(new ClientFile(path, descriptor));
  struct stat info = {};
  if (fstat(descriptor, &info) != 0) return SystemError("stat", path, errno);
  if (!S_ISREG(info.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat(path.string(), " is not a regular file"));
  }
  file->size_ = info.st_size;
  return file;
}

absl::StatusOr<std::string> ClientFile::ReadAt(int64_t offset, int64_t size) const {
  std::string bytes(static_cast<size_t>(size), '\0');
  for (size_t done = 0; done < bytes.size();) {
    const ssize_t n = pread(descriptor_, bytes.data() + done, bytes.size() - done,
                            offset + static_cast<int64_t>(done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      // UNAVAILABLE rather than DATA_LOSS: the content may be intact, and reading again may
      // succeed.
      return absl::UnavailableError(SystemError("read", path_, errno).message());
    }
    if (n == 0) return absl::DataLossError("the file became shorter while it was read");
    done += static_cast<size_t>(n);
  }
  return bytes;
}

}  // namespace braid
