// RUN_DIR/events.jsonl as its only writer, the supervisor of a run, sees it: one v1.RunEvent a
// line, proto3 JSON with snake_case names, the number of an event being its line.
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

// One line without newline.
std::string RunEventLine(const v1::RunEvent& event);
// Absent when the line is not a RunEvent with a number.
std::optional<v1::RunEvent> ParseRunEvent(const std::string& line);

// The newest complete event; absent when there is none. Takes the same time however long the log.
std::optional<v1::RunEvent> ReadNewestRunEvent(const std::filesystem::path& path);

// The complete events with greater numbers than `after`, in order; reads the end of the file only
// as far as it must. DataLoss names the line that is not the event of its number.
absl::StatusOr<std::vector<v1::RunEvent>> ReadRunEvents(const std::filesystem::path& path,
                                                        int64_t after);

// Not thread-safe; one at a time per file, which the supervisor's lock sees to.
class RunEventLog {
 public:
  // Continues the log, or begins it. A last line that a crash cut short is removed: its event was
  // told to nobody, as readers stop at the last newline.
  static absl::StatusOr<std::unique_ptr<RunEventLog>> Open(const std::filesystem::path& path);
  ~RunEventLog();
  RunEventLog(const RunEventLog&) = delete;
  RunEventLog& operator=(const RunEventLog&) = delete;

  // Sets the next number, and the present state when the event has none; one write, so that
  // readers see whole lines. What is not the event of a step is flushed to the device before this
  // returns. FailedPrecondition when the run cannot go to that state from the present one
  // (run_state.h); errors of the file system (file_error.h): then nothing was added, and to call
  // again is to try again.
  absl::Status Append(v1::RunEvent* event);

  int64_t last_number() const { return last_number_; }
  v1::RunState state() const { return state_; }

 private:
  absl::Status WriteLine(const std::string& line, bool flush);
  RunEventLog(std::filesystem::path path, int descriptor, int64_t size)
      : path_(std::move(path)), descriptor_(descriptor), size_(size) {}

  const std::filesystem::path path_;
  const int descriptor_;
  int64_t size_;       // of the events
  bool torn_ = false;  // there may be more in the file
  int64_t last_number_ = 0;
  v1::RunState state_ = v1::RUN_STATE_UNSPECIFIED;
};

}  // namespace braid

#endif  // BRAID_CONTROL_SUPERVISION_RUN_EVENT_LOG_H_
