// Lines of a text source, in memory bounded by the longest line allowed.
#ifndef BRAID_PIPELINE_CORPUS_LINE_READER_H_
#define BRAID_PIPELINE_CORPUS_LINE_READER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "pipeline/corpus/text_source.h"

namespace braid {

struct Line {
  // Without the newline and, on the first line, without a byte order mark. At least
  // LineReader::kPaddingBytes readable bytes follow. Valid until the next call; empty when too
  // long.
  std::string_view text;
  // Byte of the source at which the line starts.
  int64_t offset = 0;
  bool too_long = false;
};

class LineReader {
 public:
  // What a JSON parser may read beyond the end of a line.
  static constexpr size_t kPaddingBytes = 64;

  LineReader(std::unique_ptr<TextSource> source, int64_t max_line_bytes);

  // The next line; false after the last one, which needs no newline. Errors are the source's,
  // after all whole lines before; half a line is dropped then.
  absl::StatusOr<bool> Next(Line* line);

  // Goes to the line that starts at `offset`, which is not before offset(). `keep_going` is asked
  // on the way, at every chunk read; its error is returned. OUT_OF_RANGE when the source ends
  // before.
  absl::Status SkipTo(int64_t offset, const std::function<absl::Status()>& keep_going);

  // Byte of the source at which the next line starts.
  int64_t offset() const { return offset_; }
  // Bytes on disk.
  int64_t bytes_read() const { return source_->bytes_read(); }

 private:
  absl::StatusOr<bool> Fill();
  absl::StatusOr<bool> SkipRestOfLine();
  std::string_view pending() const { return {buffer_.data() + begin_, end_ - begin_}; }
  void Use(size_t bytes);

  std::unique_ptr<TextSource> source_;
  const size_t max_line_bytes_;
  std::vector<char> buffer_;
  size_t begin_ = 0;  // of what is read but not yet handed out
  size_t end_ = 0;
  int64_t offset_ = 0;  // in the source, of begin_
};

}  // namespace braid

#endif  // BRAID_PIPELINE_CORPUS_LINE_READER_H_
