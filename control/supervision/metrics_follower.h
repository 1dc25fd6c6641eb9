// Reads numbered events from a growing metrics.jsonl. A read costs what was added since the last
// one, not the length of the file.
#ifndef BRAID_CONTROL_SUPERVISION_METRICS_FOLLOWER_H_
#define BRAID_CONTROL_SUPERVISION_METRICS_FOLLOWER_H_

#include <cstdint>
#include <filesystem>
#include <vector>

#include "absl/status/statusor.h"
#include "braid/v1/training.pb.h"

namespace braid {

// The number of an event is its step; the file of a branch begins after step 1. A file that a
// resumed run has truncated or replaced is read again from its start; events that were returned
// before are not repeated. Not thread-safe.
class MetricsFollower {
 public:
  // Events up to `after_event` are skipped. The file need not exist yet.
  MetricsFollower(std::filesystem::path file, int64_t after_event);

  // Returns the complete lines added since the last call, at most `limit`. DataLoss with file and
  // line for a line that is not StepMetrics, once; the next call skips it.
  absl::StatusOr<std::vector<v1::RunEvent>> Next(int64_t limit);

 private:
  void StartOver(uint64_t inode);
  absl::Status AddLine(const std::string& line, std::vector<v1::RunEvent>* events);

  const std::filesystem::path file_;
  int64_t given_;       // number of the newest event returned
  int64_t line_ = 0;    // lines before offset_
  int64_t offset_ = 0;  // bytes read
  uint64_t inode_ = 0;
};

}  // namespace braid

#endif  // BRAID_CONTROL_SUPERVISION_METRICS_FOLLOWER_H_
