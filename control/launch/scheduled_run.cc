#include "control/launch/scheduled_run.h"

#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/status_macros.h"
#include "control/launch/launch_lock.h"
#include "control/launch/launcher.h"
#include "control/supervision/attempt_process.h"
#include "control/supervision/run_event_log.h"
#include "runs/process_identity.h"
#include "runs/run_state.h"
#include "runs/stop_request.h"

namespace braid {
namespace {

// From a request to stop until the scheduler is asked to end the job. By then the supervisor has
// ended everything, unless the supervisor or its node is gone.
constexpr double kJobGraceSeconds = kStopGraceSeconds + kKillGraceSeconds + 5;
constexpr double kCancelAgainSeconds = 30;
// Maximum time that a submission may remain unanswered: its program has a timeout of one minute,
// and a scheduler may act on the request of a killed program for another minute.
constexpr double kSubmissionSeconds = 120;
// Pause between two searches for a job that may be about to appear.
constexpr absl::Duration kSecondLook = absl::Seconds(2);

bool HasBegun(const RunDirectory& run) { return ReadProcessRecord(run.process()).ok(); }

// process.json of the last job must not be taken for that of the next one.
absl::Status RemoveProcess(const RunDirectory& run) {
  std::error_code error;
  std::filesystem::remove(run.process(), error);
  if (!error) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("cannot remove ", run.process().string(), ": ", error.message()));
}

SchedulerRecord NewSubmission(const RunDirectory& run, const v1::RunSpec& spec) {
  SchedulerRecord record;
  record.backend = spec.launch().backend();
  record.job_name = JobName(run.root(), NewNonce());
  record.place = spec.launch().kubernetes().namespace_();
  record.submitted_at = UnixTime();
  return record;
}

// Returns the state of the newest event; RUN_STATE_UNSPECIFIED without an event.
v1::RunState RecordedState(const RunDirectory& run) {
  const std::optional<v1::RunEvent> newest = ReadNewestRunEvent(run.events());
  return newest ? newest->state() : v1::RUN_STATE_UNSPECIFIED;
}

bool HasRecordedItsEnd(const RunDirectory& run) { return HasEnded(RecordedState(run)); }

// Returns true if a supervisor is alive on this machine; those on other machines cannot be seen.
bool HasSupervisorHere(const RunDirectory& run) {
  const absl::StatusOr<ProcessRecord> process = ReadProcessRecord(run.process());
  return process.ok() && IsAlive(process->identity);
}

// Returns the state of a run whose job has ended without an event that records it.
ScheduledState JobEnded(const RunDirectory& run, const SchedulerRecord& record,
                        const std::string& name, const JobStatus& status) {
  const std::optional<StopRequest> stop = ReadStopRequest(run);
  // A success counts even if a stop was requested too late, as in Decide.
  if (const auto exit = run.ReadExit(); exit && HasBegun(run) && exit->outcome == kSucceeded) {
    return {v1::RUN_SUCCEEDED, ""};
  }
  if (record.cancelled_at > 0 || (stop && stop->reason.empty())) return {v1::RUN_STOPPED, ""};
  const std::string end = absl::StrCat(
      name, " ", status.end.empty() ? absl::StrCat("ended: ", status.description) : status.end,
      HasBegun(run) ? " together with the supervisor of the run" : " before the run began");
  if (status.cancelled) return {v1::RUN_STOPPED, end};
  return {v1::RUN_FAILED, absl::StrCat(end, "; see supervisor.log, then resume the run")};
}

// Returns the state of a run whose job waits in the queue.
ScheduledState JobQueued(const RunDirectory& run, const std::string& name,
                         const JobStatus& status) {
  const char* const waits = HasBegun(run) ? " was queued again: " : " waits: ";
  return {v1::RUN_QUEUED, absl::StrCat(name, waits, status.description)};
}

// Returns true if the supervisor of the run has not begun, or if the scheduler has queued the job
// again.
bool WaitsInQueue(const RunDirectory& run) {
  const std::optional<SchedulerRecord> record = ReadSchedulerRecord(run);
  if (!record) return false;
  if (!HasBegun(run)) return true;
  const std::optional<ScheduledState> scheduled = LookAtScheduledRun(run);
  return scheduled && scheduled->state == v1::RUN_QUEUED;
}

// Finds the job of a submission without an answer, if there is one. Unless the submission was
// refused, its job may be about to appear, so it is searched for twice.
absl::StatusOr<std::optional<SchedulerRecord>> FindSubmission(Scheduler& scheduler,
                                                              SchedulerRecord record) {
  const bool on_its_way =
      record.refusal.empty() && UnixTime() - record.submitted_at < kSubmissionSeconds;
  record.refusal.clear();
  ASSIGN_OR_RETURN(std::optional<SchedulerRecord> found, scheduler.Find(record));
  if (found || !on_its_way) return found;
  absl::SleepFor(kSecondLook);
  return scheduler.Find(record);
}

// Records the refusal when the scheduler has certainly not taken the job; otherwise nothing is
// known.
absl::Status SubmissionFailed(Scheduler& scheduler, const RunDirectory& run, SchedulerRecord record,
                              const absl::Status& error) {
  // The scheduler may still act on a request that was cut off (kSubmissionSeconds).
  if (absl::IsDeadlineExceeded(error)) return error;
  // The submission may have failed after the scheduler took the job.
  const absl::StatusOr<std::optional<SchedulerRecord>> found = scheduler.Find(record);
  if (!found.ok()) return error;
  if (*found) return WriteSchedulerRecord(run, **found);
  record.refusal = std::string(error.message());
  RETURN_IF_ERROR(WriteSchedulerRecord(run, record));
  // Not UNAVAILABLE as the failure of the program, which clients take for that of this service.
  return absl::FailedPreconditionError(record.refusal);
}

// Returns the state of a submission without a job whose supervisor has not begun either.
ScheduledState Unanswered(const SchedulerRecord& record) {
  if (!record.refusal.empty()) return {v1::RUN_FAILED, record.refusal};
  if (UnixTime() - record.submitted_at < kSubmissionSeconds) {
    return {v1::RUN_STARTING, "being submitted"};
  }
  return {
      v1::RUN_FAILED,
      "the scheduler did not answer the submission; resume the run to find its job or to submit "
      "it again"};
}

}  // namespace

absl::StatusOr<SchedulerRecord> NextSubmission(Scheduler& scheduler, const RunDirectory& run,
                                               const v1::RunSpec& spec) {
  RETURN_IF_ERROR(CheckSchedulerRecord(run));
  const std::optional<SchedulerRecord> last = ReadSchedulerRecord(run);
  if (!last) return NewSubmission(run, spec);
  // A submission without an answer may still have a job. Its name is used again, so that SubmitRun
  // searches for that job before it submits another one.
  if (last->job.empty() && !HasBegun(run)) return *last;
  // It had a job, whose supervisor began; StartLockedRun has found that no process of it is alive.
  if (last->job.empty()) return NewSubmission(run, spec);
  ASSIGN_OR_RETURN(const JobStatus status, scheduler.Look(*last, Freshness::kNow));
  if (status.phase == JobPhase::kEnded) return NewSubmission(run, spec);
  // The job may still be exiting, but the run in it has ended.
  const bool exiting = status.phase == JobPhase::kStarted && HasBegun(run);
  if (exiting && HasRecordedItsEnd(run)) return NewSubmission(run, spec);
  return absl::FailedPreconditionError(absl::StrCat(
      run.root().string(), " already has job ", last->job, ": ", status.description,
      "; wait for it, or cancel it with: braid stop ", run.root().filename().string()));
}

absl::Status SubmitRun(Scheduler& scheduler, const RunDirectory& run,
                       const std::filesystem::path& file, const SchedulerRecord& record) {
  const std::optional<SchedulerRecord> last = ReadSchedulerRecord(run);
  SchedulerRecord next = record;
  next.refusal.clear();
  if (last && last->job_name == record.job_name) {
    ASSIGN_OR_RETURN(const std::optional<SchedulerRecord> found, FindSubmission(scheduler, *last));
    if (found) return WriteSchedulerRecord(run, *found);
  }
  // The name is durable before the scheduler can know it; what the last job left is removed before
  // the next one can write it.
  next.submitted_at = UnixTime();
  RETURN_IF_ERROR(WriteSchedulerRecord(run, next));
  RETURN_IF_ERROR(RemoveProcess(run));
  RETURN_IF_ERROR(run.RemoveExit());
  const absl::StatusOr<SchedulerRecord> submitted = scheduler.Submit(file, next);
  if (submitted.ok()) return WriteSchedulerRecord(run, *submitted);
  return SubmissionFailed(scheduler, run, next, submitted.status());
}

std::optional<ScheduledState> LookAtScheduledRun(const RunDirectory& run) {
  const std::optional<SchedulerRecord> record = ReadSchedulerRecord(run);
  if (!record) return std::nullopt;
  const bool begun = HasBegun(run);
  // Until the supervisor of this job has begun, the events are those of the launch before.
  const v1::RunState recorded = begun ? RecordedState(run) : v1::RUN_STATE_UNSPECIFIED;
  if (recorded == v1::RUN_SUCCEEDED || (begun && HasSupervisorHere(run))) return std::nullopt;
  Scheduler* const scheduler = SchedulerOf(record->backend);
  if (record->job.empty() || scheduler == nullptr) {
    if (begun) return std::nullopt;
    return Unanswered(*record);
  }
  const absl::StatusOr<JobStatus> status =
      scheduler->Look(*record, HasEnded(recorded) ? Freshness::kQueueOnly : Freshness::kCached);
  if (!status.ok()) {
    if (begun) return std::nullopt;
    return ScheduledState{v1::RUN_QUEUED, std::string(status.status().message())};
  }
  const std::string name = scheduler->NameOf(*record);
  // The run may have begun or ended while the scheduler was asked.
  if (HasBegun(run) && RecordedState(run) == v1::RUN_SUCCEEDED) return std::nullopt;
  if (status->phase == JobPhase::kQueued) return JobQueued(run, name, *status);
  if (HasBegun(run) && HasRecordedItsEnd(run)) return std::nullopt;
  if (status->phase == JobPhase::kEnded) return JobEnded(run, *record, name, *status);
  const bool has_events = HasBegun(run) && RecordedState(run) != v1::RUN_STATE_UNSPECIFIED;
  if (has_events) return ScheduledState{v1::RUN_STATE_UNSPECIFIED, ""};
  return ScheduledState{v1::RUN_STARTING, absl::StrCat(name, " starts: ", status->description)};
}

std::string SchedulerJobOf(const RunDirectory& run) {
  const std::optional<SchedulerRecord> record = ReadSchedulerRecord(run);
  return record ? record->job : "";
}

absl::StatusOr<bool> CancelQueuedRun(const RunDirectory& run) {
  // Checked before the lock: most runs have no scheduler, and a launch may hold it for a minute.
  if (!WaitsInQueue(run)) return false;
  ASSIGN_OR_RETURN(const FileLock lock, LockLaunch(run));
  std::optional<SchedulerRecord> record = ReadSchedulerRecord(run);
  if (!record || record->job.empty() || !WaitsInQueue(run)) return false;
  Scheduler* const scheduler = SchedulerOf(record->backend);
  if (scheduler == nullptr) return false;
  // Recorded first, so that the end of the job counts as a stop even if this process dies.
  record->cancelled_at = UnixTime();
  RETURN_IF_ERROR(WriteSchedulerRecord(run, *record));
  const absl::Status cancelled = scheduler->Cancel(*record);
  if (cancelled.ok()) return true;
  // The job continues, and its end will have another cause.
  record->cancelled_at = 0;
  RETURN_IF_ERROR(WriteSchedulerRecord(run, *record));
  return cancelled;
}

absl::Status EndScheduledJob(const RunDirectory& run) {
  const std::optional<SchedulerRecord> record = ReadSchedulerRecord(run);
  if (!record || record->job.empty()) return absl::OkStatus();
  Scheduler* const scheduler = SchedulerOf(record->backend);
  return scheduler == nullptr ? absl::OkStatus() : scheduler->Cancel(*record);
}

absl::Status EndOverdueJob(const RunDirectory& run, double now) {
  const std::optional<StopRequest> stop = ReadStopRequest(run);
  if (!stop || !stop->reason.empty() || !ReadSchedulerRecord(run)) return absl::OkStatus();
  const absl::StatusOr<FileLock> lock = TryLockLaunch(run);
  if (!lock.ok()) return absl::OkStatus();  // another process is starting or cancelling the run
  std::optional<SchedulerRecord> record = ReadSchedulerRecord(run);
  if (!record || record->job.empty()) return absl::OkStatus();
  if (now - stop->requested_at < kJobGraceSeconds) return absl::OkStatus();
  if (now - record->cancelled_at < kCancelAgainSeconds) return absl::OkStatus();
  // Recorded first, so that only one of several processes asks the scheduler.
  record->cancelled_at = now;
  RETURN_IF_ERROR(WriteSchedulerRecord(run, *record));
  return EndScheduledJob(run);
}

}  // namespace braid
