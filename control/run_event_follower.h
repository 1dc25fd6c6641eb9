// Reads RUN_DIR/events.jsonl while the supervisor appends to it (run_event_log.h). A line without a
// newline is still being written and is not returned.
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

  // Returns the size of the file; 0 when there is none. It grows with every event.
  int64_t SizeBytes() const;

  // Returns the events with numbers above `number`, in order, until their lines exceed `max_bytes`.
  // Continuing after the last returned event costs only what is read; other places are found by
  // bisection, since each line contains its number. DATA_LOSS with the line that is not the event
  // of its number.
  absl::StatusOr<std::vector<v1::RunEvent>> After(int64_t number, int64_t max_bytes);

 private:
  int64_t StartOf(std::ifstream& file, int64_t number) const;

  const std::filesystem::path path_;
  // The number of the last returned event, and where the line after it begins.
  int64_t given_ = 0;
  int64_t offset_ = 0;
};

}  // namespace braid

#endif  // BRAID_CONTROL_RUN_EVENT_FOLLOWER_H_
