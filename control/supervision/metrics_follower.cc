#include "control/supervision/metrics_follower.h"

#include <sys/stat.h>

#include <fstream>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "runs/metrics_line.h"

namespace braid {

MetricsFollower::MetricsFollower(std::filesystem::path file, int64_t after_event)
    : file_(std::move(file)), given_(after_event) {}

void MetricsFollower::StartOver(uint64_t inode) {
  inode_ = inode;
  offset_ = 0;
  line_ = 0;
}

absl::Status MetricsFollower::AddLine(const std::string& line, std::vector<v1::RunEvent>* events) {
  v1::RunEvent event;
  if (!ParseMetricsLine(line, event.mutable_metrics())) {
    return absl::DataLossError(
        absl::StrCat(file_.string(), ":", line_, ": expected StepMetrics in JSON"));
  }
  const int64_t step = event.metrics().step();
  if (step <= given_) return absl::OkStatus();
  given_ = step;
  event.set_number(step);
  events->push_back(std::move(event));
  return absl::OkStatus();
}

absl::StatusOr<std::vector<v1::RunEvent>> MetricsFollower::Next(int64_t limit) {
  std::vector<v1::RunEvent> events;
  struct stat status;
  if (stat(file_.c_str(), &status) != 0) return events;
  // A resumed trainer replaces the file by one that ends at its checkpoint, and repeats the steps
  // after it. AddLine passes over those that have been returned.
  if (status.st_ino != inode_ || status.st_size < offset_) StartOver(status.st_ino);
  if (status.st_size == offset_) return events;
  std::ifstream in(file_, std::ios::binary);
  in.seekg(offset_);
  // A last line without a newline is still being written.
  for (std::string line; std::ssize(events) < limit && std::getline(in, line) && !in.eof();) {
    ++line_;
    offset_ += std::ssize(line) + 1;
    const absl::Status added = AddLine(line, &events);
    if (added.ok()) continue;
    if (events.empty()) return added;
    // The events before the bad line are returned first; the next call reports the error.
    --line_;
    offset_ -= std::ssize(line) + 1;
    break;
  }
  return events;
}

}  // namespace braid
