// A file mapped into memory read-only.
#ifndef BRAID_BASE_MAPPED_FILE_H_
#define BRAID_BASE_MAPPED_FILE_H_

#include <cstddef>
#include <filesystem>
#include <string_view>

#include "absl/status/statusor.h"

namespace braid {

// Guarantees: bytes() starts on a page boundary (or is empty for an empty file) and stays valid
// while this object, or the one it was moved to, lives. Thread-safe.
//
// Requires: no process truncates the file meanwhile. (Files committed by AtomicFile are replaced,
// never truncated; the mapping keeps showing the old bytes.)
class MappedFile {
 public:
  // Errors: NOT_FOUND, PERMISSION_DENIED, or INVALID_ARGUMENT if `path` is not a regular file.
  static absl::StatusOr<MappedFile> Open(const std::filesystem::path& path);

  MappedFile() = default;
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  std::string_view bytes() const { return {data_, size_}; }

 private:
  const char* data_ = nullptr;
  size_t size_ = 0;
};

// Lets the kernel drop the whole pages of a part of a mapped file's bytes from memory. Reading the
// bytes again loads them from the file.
void ReleasePages(std::string_view mapped);

}  // namespace braid

#endif  // BRAID_BASE_MAPPED_FILE_H_
