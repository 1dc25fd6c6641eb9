// RUN_DIR/events.jsonl as its readers see it while the supervisor adds to it (run_event_log.h): a
// line that has no newline yet is not there.
#ifndef BRAID_CONTROL_RUN_EVENT_FOLLOWER_H_
#define BRAID_CONTROL_RUN_EVENT_FOLLOWER_H_

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <vector>

#include "absl/status/statusor.h"
#include "braid/v1/training.pb.h"

namespace braid {

// Not thread-safe.
class RunEventFollower {
 public:
  // The file need not exist yet.
  explicit RunEventFollower(std::filesystem::path path) : path_(std::move(path)) {}

  // Size of the file now; 0 when there is none. What is added makes it grow.
  int64_t SizeBytes() const;

  // The events above `number`, in order, and no more once their lines have `max_bytes`. Going on
  // from the last event given costs what is read; elsewhere the place is found by bisection, for
  // a line says its number. DATA_LOSS names the line that is not the event of its number.
  absl::StatusOr<std::vector<v1::RunEvent>> After(int64_t number, int64_t max_bytes);

 private:
  int64_t StartOf(std::ifstream& file, int64_t number) const;

  const std::filesystem::path path_;
  // Where the line after the last event given begins, and that event's number.
  int64_t given_ = 0;
  int64_t offset_ = 0;
};

}  // namespace braid

#endif  // BRAID_CONTROL_RUN_EVENT_FOLLOWER_H_
