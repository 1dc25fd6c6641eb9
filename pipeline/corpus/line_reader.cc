#include "pipeline/corpus/line_reader.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace braid {
namespace {

constexpr size_t kChunkBytes = size_t{256} << 10;
constexpr size_t kMostSkippedBytes = size_t{16} << 20;
constexpr std::string_view kLineReaderByteOrderMark = "\xEF\xBB\xBF";

}  // namespace

LineReader::LineReader(std::unique_ptr<TextSource> source, int64_t max_line_bytes)
    : source_(std::move(source)),
      max_line_bytes_(static_cast<size_t>(max_line_bytes)),
      buffer_(kChunkBytes + kPaddingBytes) {}

void LineReader::Use(size_t bytes) {
  begin_ += bytes;
  offset_ += static_cast<int64_t>(bytes);
}

// Appends a chunk to the pending bytes; returns false at the end of the source.
absl::StatusOr<bool> LineReader::Fill() {
  if (begin_ > 0) {
    std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
    end_ -= std::exchange(begin_, 0);
  }
  if (end_ + kPaddingBytes == buffer_.size()) {
    buffer_.resize(std::min(2 * end_, max_line_bytes_ + kChunkBytes) + kPaddingBytes);
  }
  const std::span<char> room(buffer_.data() + end_, buffer_.size() - kPaddingBytes - end_);
  ASSIGN_OR_RETURN(const size_t size, source_->Read(room));
  end_ += size;
  return size > 0;
}

// Skips a part of the line that starts at *long_line_.
absl::Status LineReader::SkipLongLine(Line* line) {
  *line = {.text = {}, .offset = *long_line_, .unfinished = true};
  for (size_t skipped = 0; line->unfinished && skipped < kMostSkippedBytes;) {
    const size_t newline = pending().find('\n');
    bool ends = newline != std::string_view::npos;
    const size_t size = ends ? newline + 1 : pending().size();
    Use(size);
    skipped += size;
    if (!ends) {
      ASSIGN_OR_RETURN(const bool more, Fill());
      ends = !more;
    }
    line->unfinished = !ends;
  }
  line->too_long = !line->unfinished;
  if (line->too_long) long_line_.reset();
  return absl::OkStatus();
}

absl::Status LineReader::SkipTo(int64_t offset, const std::function<absl::Status()>& keep_going) {
  while (offset_ < offset) {
    RETURN_IF_ERROR(keep_going());
    Use(std::min(pending().size(), static_cast<size_t>(offset - offset_)));
    if (offset_ == offset) break;
    ASSIGN_OR_RETURN(const bool more, Fill());
    if (!more)
      return absl::OutOfRangeError(absl::StrCat("got a source shorter than offset ", offset));
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> LineReader::Next(Line* line) {
  if (long_line_) {
    RETURN_IF_ERROR(SkipLongLine(line));
    return true;
  }
  size_t newline = pending().find('\n');
  while (newline == std::string_view::npos && pending().size() <= max_line_bytes_) {
    const size_t searched = pending().size();
    ASSIGN_OR_RETURN(const bool more, Fill());
    if (!more) break;
    newline = pending().find('\n', searched);
  }
  if (pending().empty()) return false;
  const size_t size = std::min(newline, pending().size());
  *line = {.text = pending().substr(0, size), .offset = offset_, .too_long = false};
  if (size > max_line_bytes_) {
    long_line_ = offset_;
    RETURN_IF_ERROR(SkipLongLine(line));
    return true;
  }
  if (offset_ == 0 && line->text.starts_with(kLineReaderByteOrderMark)) {
    line->text.remove_prefix(kLineReaderByteOrderMark.size());
  }
  Use(std::min(size + 1, pending().size()));
  return true;
}

}  // namespace braid
