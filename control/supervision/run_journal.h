// What the supervisor of a run writes down: the event log, and what it amounts to.
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

// One writer at a time, which the supervisor's lock sees to.
class RunJournal {
 public:
  // An event that the file system refuses is tried again for `patience_seconds`.
  static absl::StatusOr<std::unique_ptr<RunJournal>> Open(const RunDirectory& run,
                                                          double patience_seconds);

  v1::RunState state() const { return log_->state(); }
  int64_t last_number() const { return log_->last_number(); }
  const RunHistory& history() const { return history_; }

  // Of the launch; kept with the history.
  void SetNonce(const std::string& nonce) { history_.nonce = nonce; }

  // Adds an event of this moment; errors as of RunEventLog::Append.
  absl::Status Append(v1::RunEvent event);
  absl::Status Tell(v1::RunState state, const std::string& message);

  // supervision.json: about once a second, however often this is called, and for good.
  void SaveNowAndThen();
  void Close() { Save(Durability::kSynced); }

  // On standard error; the same is said once.
  void Complain(const absl::Status& status);

 private:
  RunJournal(RunDirectory run, double patience_seconds)
      : run_(std::move(run)), patience_seconds_(patience_seconds) {}

  absl::Status Write(v1::RunEvent* event);
  void Save(Durability durability);

  const RunDirectory run_;
  const double patience_seconds_;
  std::unique_ptr<RunEventLog> log_;
  RunHistory history_;
  double saved_at_ = 0;    // Unix seconds
  std::string complaint_;  // the last
};

}  // namespace braid

#endif  // BRAID_CONTROL_SUPERVISION_RUN_JOURNAL_H_
