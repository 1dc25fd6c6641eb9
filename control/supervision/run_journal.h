// What the supervisor of a run records: the event log (events.jsonl) and its summary
// (supervision.json).
#ifndef BRAID_CONTROL_SUPERVISION_RUN_JOURNAL_H_
#define BRAID_CONTROL_SUPERVISION_RUN_JOURNAL_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "braid/v1/training.pb.h"
#include "control/supervision/run_event_log.h"
#include "control/supervision/run_history.h"
#include "runs/run_directory.h"

namespace braid {

// Not thread-safe. One writer per run at a time, which supervisor.lock guarantees.
class RunJournal {
 public:
  // Opens the journal of a run. If the file system refuses an event, writing it is repeated for
  // `patience_seconds`: a full disk is often cleaned up, and a file server becomes available again.
  static absl::StatusOr<std::unique_ptr<RunJournal>> Open(const RunDirectory& run,
                                                          double patience_seconds);

  v1::RunState state() const { return log_->state(); }
  int64_t last_number() const { return log_->last_number(); }
  const RunHistory& history() const { return history_; }

  // Sets the nonce of the launch, which is stored with the history.
  void SetNonce(const std::string& nonce) { history_.nonce = nonce; }

  // Appends an event with the current time; errors as of RunEventLog::Append.
  absl::Status Append(v1::RunEvent event);
  // Appends an event that consists of a state and a message.
  absl::Status Record(v1::RunState state, const std::string& message);

  // Write supervision.json: about once a second however often this is called, and durably. It is a
  // cache, so write errors are logged and ignored.
  void SaveNowAndThen();
  void Close() { Save(Durability::kSynced); }

  // Logs an error to standard error, unless it is the one logged last. Does nothing when `status`
  // is OK.
  void LogError(const absl::Status& status);

 private:
  RunJournal(RunDirectory run, double patience_seconds)
      : run_(std::move(run)), patience_seconds_(patience_seconds) {}

  absl::Status Write(v1::RunEvent* event);
  void Save(Durability durability);

  const RunDirectory run_;
  const double patience_seconds_;
  std::unique_ptr<RunEventLog> log_;
  RunHistory history_;
  double saved_at_ = 0;  // steady clock
  std::string logged_;   // the last error
};

}  // namespace braid

#endif  // BRAID_CONTROL_SUPERVISION_RUN_JOURNAL_H_
