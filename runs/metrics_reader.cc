#include "runs/metrics_reader.h"

#include <iterator>

#include "absl/strings/str_cat.h"
#include "base/file_error.h"
#include "runs/metrics_line.h"

namespace braid {

bool MetricsReader::NextLine() {
  if (line_number_ == last_line_ || !std::getline(file_, line_) || file_.eof()) return false;
  ++line_number_;
  offset_ += std::ssize(line_) + 1;
  return true;
}

absl::StatusOr<v1::StepMetrics> MetricsReader::Parse() const {
  v1::StepMetrics metrics;
  if (ParseMetricsLine(line_, &metrics)) return metrics;
  return CorruptFile(path_, {.what = absl::StrCat("line ", line_number_),
                             .offset = offset_ - std::ssize(line_) - 1,
                             .got = line_.substr(0, 80),
                             .expected = "a StepMetrics in JSON",
                             .hint = ""});
}

void MetricsReader::Rewind() {
  last_line_ = line_number_;
  line_number_ = 0;
  offset_ = 0;
  file_.clear();
  file_.seekg(0);
}

}  // namespace braid
