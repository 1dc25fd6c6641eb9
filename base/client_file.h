// A file of a client that is read in parts. Unlike a mapped file, it may become shorter meanwhile.
#ifndef BRAID_BASE_CLIENT_FILE_H_
#define BRAID_BASE_CLIENT_FILE_H_

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace braid {

// Thread-safe.
class ClientFile {
 public:
  // Opens a file beneath ClientRoots() without blocking. Errors: those of PathRoots::Open;
  // INVALID_ARGUMENT for a file that is not regular.
  static absl::StatusOr<std::unique_ptr<const ClientFile>> Open(const std::filesystem::path& path);
  ~ClientFile();
  ClientFile(const ClientFile&) = delete;
  ClientFile& operator=(const ClientFile&) = delete;

  // The bytes of the file when it was opened.
  int64_t size() const { return size_; }

  // Returns `size` bytes from `offset` on. DATA_LOSS, without the path, when the file has become
  // shorter; UNAVAILABLE when the file system fails.
  absl::StatusOr<std::string> ReadAt(int64_t offset, int64_t size) const;

 private:
  ClientFile(std::filesystem::path path, int descriptor);

  const std::filesystem::path path_;
  const int descriptor_;
  int64_t size_ = 0;
};

}  // namespace braid

#endif  // BRAID_BASE_CLIENT_FILE_H_
