#include "control/supervision/run_journal.h"

#include <chrono>
#include <iostream>
#include <thread>
#include <utility>

#include "absl/memory/memory.h"
#include "base/clock.h"
#include "base/file_error.h"
#include "base/status_macros.h"

namespace braid {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kSaveSeconds = 1;
constexpr std::chrono::milliseconds kWriteRetry{500};

}  // namespace

absl::StatusOr<std::unique_ptr<RunJournal>> RunJournal::Open(const RunDirectory& run,
                                                             double patience_seconds) {
  auto journal = absl::WrapUnique(new RunJournal(run, patience_seconds));
  ASSIGN_OR_RETURN(journal->log_, RunEventLog::Open(run.events()));
  ASSIGN_OR_RETURN(journal->history_, LoadRunHistory(run.supervision(), run.events()));
  return journal;
}

absl::Status RunJournal::Record(v1::RunState state, const std::string& message) {
  v1::RunEvent event;
  event.set_state(state);
  event.set_message(message);
  return Append(std::move(event));
}

absl::Status RunJournal::Append(v1::RunEvent event) {
  event.set_time(UnixTime());
  const bool is_step = event.has_metrics();
  // The log comes first: LoadRunHistory completes a summary that lacks events of the log, and
  // discards one with an event that the log lacks.
  RETURN_IF_ERROR(Write(&event));
  history_.Apply(event);
  // Steps may come many times a second; SaveNowAndThen covers them.
  if (!is_step) Save(Durability::kRenamed);
  return absl::OkStatus();
}

absl::Status RunJournal::Write(v1::RunEvent* event) {
  const auto begin = Clock::now();
  while (true) {
    absl::Status status = log_->Append(event);
    const std::chrono::duration<double> waited = Clock::now() - begin;
    // Only the file system can recover. An illegal transition would stay illegal.
    if (!IsSystemError(status) || waited.count() > patience_seconds_) return status;
    LogError(status);
    std::this_thread::sleep_for(kWriteRetry);
  }
}

void RunJournal::SaveNowAndThen() {
  if (SteadySeconds() - saved_at_ > kSaveSeconds) Save(Durability::kRenamed);
}

void RunJournal::Save(Durability durability) {
  saved_at_ = SteadySeconds();
  const absl::Status saved = WriteRunHistory(run_.supervision(), history_, durability);
  if (!saved.ok()) LogError(saved);
}

void RunJournal::LogError(const absl::Status& status) {
  if (status.ok()) return;
  const std::string message(status.message());
  if (std::exchange(logged_, message) != message) std::cerr << message << std::endl;
}

}  // namespace braid
