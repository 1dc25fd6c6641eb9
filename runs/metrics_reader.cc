#include "runs/metrics_reader.h"

#include <cerrno>
#include <iterator>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/file_error.h"
#include "runs/metrics_line.h"

namespace braid {
namespace {

// Returns whether more bytes may complete the bytes at the end of a file to a line. Blocks that a
// file system has lost, and blocks that it had not written before a power cut, contain zeros.
bool MayBecomeLine(const std::string& bytes) {
  return bytes.front() == '{' && bytes.find('\0') == std::string::npos;
}

// Returns the beginning of a line for a message.
std::string Excerpt(const std::string& line) {
  constexpr size_t kTextBytes = 80, kOtherBytes = 8;
  if (line.find('\0') == std::string::npos) return line.substr(0, kTextBytes);
  return absl::StrCat("\"", absl::CHexEscape(line.substr(0, kOtherBytes)), "\"...");
}

}  // namespace

std::string WrongEnd(const std::optional<ExitRecord>& exit, int64_t last_step) {
  // Records of an older trainer may have no step.
  if (!exit || exit->outcome != kSucceeded || exit->step <= 0) return "";
  if (last_step == exit->step) return "";
  if (last_step == 0) return absl::StrCat("has no readable end, expected step ", exit->step);
  return absl::StrCat("ends at step ", last_step, " of ", exit->step);
}

MetricsReader::MetricsReader(const RunDirectory& run)
    : path_(run.metrics()), exit_(run.ReadExit()) {
  errno = 0;
  file_.open(path_, std::ios::binary);
  if (!file_.is_open() && errno != ENOENT) read_error_ = SystemError("open", path_, errno);
}

bool MetricsReader::NextLine() {
  if (line_number_ == last_line_) return false;
  errno = 0;
  if (!std::getline(file_, line_)) {
    if (file_.bad()) read_error_ = SystemError("read", path_, errno != 0 ? errno : EIO);
    return false;
  }
  if (file_.eof()) {
    is_cut_ = true;
    if (MayBecomeLine(line_)) return false;
  }
  ++line_number_;
  offset_ += std::ssize(line_) + 1;
  return true;
}

absl::StatusOr<v1::StepMetrics> MetricsReader::Parse() const {
  v1::StepMetrics metrics;
  if (ParseMetricsLine(line_, &metrics)) return metrics;
  return CorruptFile(path_, {.what = absl::StrCat("line ", line_number_),
                             .offset = offset_ - std::ssize(line_) - 1,
                             .got = Excerpt(line_),
                             .expected = "a StepMetrics in JSON",
                             .hint = ""});
}

absl::Status MetricsReader::CheckEnd(int64_t last_step) const {
  if (!read_error_.ok() || !file_.is_open()) return read_error_;
  const bool has_succeeded = exit_ && exit_->outcome == kSucceeded;
  std::string found = WrongEnd(exit_, last_step);
  if (found.empty() && has_succeeded && is_cut_) found = "ends with a truncated line";
  if (found.empty()) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat(path_.string(), ": ", found,
                   ", but the run has succeeded, so lines are lost; "
                   "restore the file from a backup, or move it away to do without it"));
}

void MetricsReader::Rewind() {
  last_line_ = line_number_;
  line_number_ = 0;
  offset_ = 0;
  file_.clear();
  file_.seekg(0);
}

}  // namespace braid
