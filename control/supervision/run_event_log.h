// RUN_DIR/events.jsonl: one v1.RunEvent per line in proto3 JSON with snake_case names. The number
// of an event is the number of its line. The supervisor of the run is the only writer.
//
//   ASSIGN_OR_RETURN(std::unique_ptr<RunEventLog> log, RunEventLog::Open(path));
//   RETURN_IF_ERROR(log->Append(&event));   // numbers it
#ifndef BRAID_CONTROL_SUPERVISION_RUN_EVENT_LOG_H_
#define BRAID_CONTROL_SUPERVISION_RUN_EVENT_LOG_H_

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "braid/v1/training.pb.h"

namespace braid {

// Returns the line of an event, without the newline.
std::string RunEventLine(const v1::RunEvent& event);
// Parses a line. Absent when it is not a RunEvent with a number.
std::optional<v1::RunEvent> ParseRunEvent(const std::string& line);

// Returns the newest complete event, if any. The time does not depend on the length of the log.
std::optional<v1::RunEvent> ReadNewestRunEvent(const std::filesystem::path& path);

// Returns the complete events with numbers greater than `after`, in order. Reads no more of the end
// of the file than needed. DataLoss with the line that is not the event of its number.
absl::StatusOr<std::vector<v1::RunEvent>> ReadRunEvents(const std::filesystem::path& path,
                                                        int64_t after);

// Not thread-safe. One writer per file at a time, which supervisor.lock guarantees.
class RunEventLog {
 public:
  // Opens the log, or creates it. A last line that a crash cut short is removed: no reader has seen
  // its event, because readers stop at the last newline.
  static absl::StatusOr<std::unique_ptr<RunEventLog>> Open(const std::filesystem::path& path);
  ~RunEventLog();
  RunEventLog(const RunEventLog&) = delete;
  RunEventLog& operator=(const RunEventLog&) = delete;

  // Appends the event with the next number, and with the current state when it has none. Uses one
  // write, so that readers see whole lines. Events other than steps are flushed to the device
  // before this returns. FailedPrecondition when the transition of states is not legal
  // (run_state.h). After an error of the file system (file_error.h) nothing was appended, and the
  // call can be repeated.
  absl::Status Append(v1::RunEvent* event);

  int64_t last_number() const { return last_number_; }
  v1::RunState state() const { return state_; }

 private:
  absl::Status WriteLine(const std::string& line, bool flush);
  RunEventLog(std::filesystem::path path, int descriptor, int64_t size)
      : path_(std::move(path)), descriptor_(descriptor), size_(size) {}

  const std::filesystem::path path_;
  const int descriptor_;
  int64_t size_;       // bytes of complete events
  bool torn_ = false;  // the file may hold a partial line after them
  int64_t last_number_ = 0;
  v1::RunState state_ = v1::RUN_STATE_UNSPECIFIED;
};

}  // namespace braid

#endif  // BRAID_CONTROL_SUPERVISION_RUN_EVENT_LOG_H_
