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

// The limit beyond which a compressed file counts as a decompression bomb: more than `max_bytes` of
// output, or more than `min_bytes` and more than `max_ratio` times the compressed bytes read. (Text
// compresses by a factor of 3 to 20; the maximum of deflate is 1032, that of zstd about 32,500.)
struct ExpansionLimit {
  int64_t min_bytes = int64_t{64} << 20;
  int64_t max_ratio = 1000;
  int64_t max_bytes = int64_t{1} << 40;
};

// Returns the compression that the extension of a file name promises, in any letter case: ".gz",
// ".zst" (also for ".zstd") or "".
std::string CompressionOf(const std::filesystem::path& path);

// Returns whether an error of TextSource means that a file expands beyond its ExpansionLimit.
bool IsDecompressionBomb(const absl::Status& status);

// A stream of bytes. Not thread-safe.
class TextSource {
 public:
  // Opens a file and detects compression by its first bytes. Consecutive gzip members or zstd
  // frames are concatenated. Zstd windows may have any size up to 2 GiB; memory is used for the
  // part that a frame fills. Never blocks on a FIFO. Errors: NOT_FOUND; PERMISSION_DENIED, also for
  // a path outside of ClientRoots(); INVALID_ARGUMENT for a file that is not regular, and for a
  // name ending in .gz, .zst or .zstd without compressed content.
  static absl::StatusOr<std::unique_ptr<TextSource>> Open(const std::filesystem::path& path,
                                                          const ExpansionLimit& limit = {});

  virtual ~TextSource() = default;

  // Reads up to out.size() bytes and returns their number; 0 only at the end. Requires: `out` is
  // not empty. Errors: DATA_LOSS when the compressed data are damaged or truncated, after all bytes
  // before the damage were returned; RESOURCE_EXHAUSTED for a decompression bomb; UNAVAILABLE when
  // the file system or memory fails.
  virtual absl::StatusOr<size_t> Read(std::span<char> out) = 0;

  // The bytes of the file read so far, as stored on disk.
  virtual int64_t bytes_read() const = 0;
};

// Returns the whole text of a file, without a UTF-8 byte order mark; nullopt when it is longer than
// `max_bytes`. Errors: those of TextSource.
absl::StatusOr<std::optional<std::string>> ReadText(const std::filesystem::path& path,
                                                    int64_t max_bytes,
                                                    const ExpansionLimit& limit = {});

}  // namespace braid

#endif  // BRAID_PIPELINE_CORPUS_TEXT_SOURCE_H_
