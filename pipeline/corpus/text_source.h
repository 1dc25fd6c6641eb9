// The decompressed bytes of a plain, gzip or Zstandard file, as a stream.
#ifndef BRAID_PIPELINE_CORPUS_TEXT_SOURCE_H_
#define BRAID_PIPELINE_CORPUS_TEXT_SOURCE_H_

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "absl/status/statusor.h"

namespace braid {

// A file is taken for a decompression bomb once it has given more than `max_bytes`, or more than
// `min_bytes` and more than `max_ratio` times the compressed bytes read. (Text shrinks by 3 to 20;
// deflate ends at 1032, zstd near 32,500.)
struct ExpansionLimit {
  int64_t min_bytes = int64_t{64} << 20;
  int64_t max_ratio = 1000;
  int64_t max_bytes = int64_t{1} << 40;
};

// Whether reading stopped because a file expands beyond its ExpansionLimit.
bool IsDecompressionBomb(const absl::Status& status);

class TextSource {
 public:
  // Recognises compression by the first bytes; a name that ends in .gz or .zst must have it.
  // Several gzip members or zstd frames in a file are read one after the other; zstd windows may
  // have any size up to 2 GiB, of which as much memory is used as the frame fills. NOT_FOUND,
  // PERMISSION_DENIED, also outside of ClientRoots(); INVALID_ARGUMENT when the name lies, or for
  // anything but a regular file, which is never waited for.
  static absl::StatusOr<std::unique_ptr<TextSource>> Open(const std::filesystem::path& path,
                                                          const ExpansionLimit& limit = {});

  virtual ~TextSource() = default;

  // Fills the front of `out`, which must not be empty, and returns how many bytes; 0 only at the
  // end. DATA_LOSS when the compressed data are damaged or cut short, after all that could be
  // decompressed before; RESOURCE_EXHAUSTED for a decompression bomb; UNAVAILABLE when the file
  // system or memory fails.
  virtual absl::StatusOr<size_t> Read(std::span<char> out) = 0;

  // Bytes of the file read so far.
  virtual int64_t bytes_read() const = 0;
};

// All the text of a file; nullopt when it is longer than `max_bytes`. A UTF-8 byte order mark is
// left out. Errors: those of TextSource.
absl::StatusOr<std::optional<std::string>> ReadText(const std::filesystem::path& path,
                                                    int64_t max_bytes,
                                                    const ExpansionLimit& limit = {});

}  // namespace braid

#endif  // BRAID_PIPELINE_CORPUS_TEXT_SOURCE_H_
