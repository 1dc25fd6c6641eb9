// Numbered events from a growing metrics.jsonl: each look costs what was added
// since the last one, not the length of the file.
#ifndef BRAID_CONTROL_SUPERVISION_METRICS_FOLLOWER_H_
#define BRAID_CONTROL_SUPERVISION_METRICS_FOLLOWER_H_

#include <cstdint>
#include <filesystem>
#include <vector>

#include "absl/status/statusor.h"
#include "braid/v1/training.pb.h"

namespace braid {

// The number of an event is its line, from 1. A file that a resumed run has cut
// short is read again from its start; events already given are not repeated.
class MetricsFollower {
 public:
  // Events up to `after_event` are skipped. The file need not exist yet.
  MetricsFollower(std::filesystem::path file, int64_t after_event);

  // The complete lines added since the last call, at most `limit`. DataLoss names
  // the file and line of one that is not StepMetrics, once: then that is passed over.
  absl::StatusOr<std::vector<v1::RunEvent>> Next(int64_t limit);

 private:
  void StartOver(uint64_t inode);
  absl::Status AddLine(const std::string& line, std::vector<v1::RunEvent>* events);

  const std::filesystem::path file_;
  int64_t given_;       // number of the newest event given
  int64_t line_ = 0;    // lines before offset_
  int64_t offset_ = 0;  // bytes read
  uint64_t inode_ = 0;
};

}  // namespace braid

#endif  // BRAID_CONTROL_SUPERVISION_METRICS_FOLLOWER_H_
