// Reads the lines of a text source, in memory bounded by the maximum line length.
#ifndef BRAID_PIPELINE_CORPUS_LINE_READER_H_
#define BRAID_PIPELINE_CORPUS_LINE_READER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "pipeline/corpus/text_source.h"

namespace braid {

struct Line {
  // The line without its newline and, at the start of the source, without a byte order mark. At
  // least LineReader::kPaddingBytes readable bytes follow. Valid until the next call; empty if
  // too_long.
  std::string_view text;
  // The byte of the source at which the line starts.
  int64_t offset = 0;
  bool too_long = false;
  // The line is too long, and its end is not reached yet; the next call continues to skip it.
  bool unfinished = false;
};

// A reader of one source. Not thread-safe.
class LineReader {
 public:
  // The number of bytes that a JSON parser may read beyond the end of a line.
  static constexpr size_t kPaddingBytes = 64;

  LineReader(std::unique_ptr<TextSource> source, int64_t max_line_bytes);

  // Reads the next line; returns false after the last one, which needs no newline. An error of the
  // source is returned after all complete lines before it; the incomplete line is dropped. Reads
  // little more than the maximum length, so that a caller can check for cancellation.
  absl::StatusOr<bool> Next(Line* line);

  // Moves to the line that starts at `offset`. Calls `keep_going` for every chunk read and returns
  // its error. Requires: offset >= offset(). OUT_OF_RANGE when the source is shorter.
  absl::Status SkipTo(int64_t offset, const std::function<absl::Status()>& keep_going);

  // The byte of the source at which the next line starts.
  int64_t offset() const { return offset_; }
  // The bytes of the file read so far, as stored on disk.
  int64_t bytes_read() const { return source_->bytes_read(); }

 private:
  absl::StatusOr<bool> Fill();
  absl::Status SkipLongLine(Line* line);
  std::string_view pending() const { return {buffer_.data() + begin_, end_ - begin_}; }
  void Use(size_t bytes);

  std::unique_ptr<TextSource> source_;
  const size_t max_line_bytes_;
  std::vector<char> buffer_;
  size_t begin_ = 0;  // start of the bytes read but not yet returned
  size_t end_ = 0;
  int64_t offset_ = 0;                // position of begin_ in the source
  std::optional<int64_t> long_line_;  // start of the line that is being skipped
};

}  // namespace braid

#endif  // BRAID_PIPELINE_CORPUS_LINE_READER_H_
