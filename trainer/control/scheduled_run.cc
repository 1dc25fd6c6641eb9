#include "trainer/control/scheduled_run.h"

#include <system_error>

#include "absl/strings/str_cat.h"
#include "formats/status_macros.h"
#include "trainer/control/launcher.h"
#include "trainer/control/process_identity.h"
#include "trainer/control/run_event_log.h"
#include "trainer/control/run_state.h"
#include "trainer/control/stop_request.h"
#include "trainer/control/unix_time.h"

namespace braid {
namespace {

// From a request to stop until the scheduler is asked to end the job: the supervisor has ended
// everything by then, unless it is gone or its node is.
constexpr double kJobGraceSeconds = kStopGraceSeconds + kKillGraceSeconds + 5;
constexpr double kCancelAgainSeconds = 30;

bool HasBegun(const RunDirectory& run) { return ReadProcessRecord(run.process()).ok(); }

// A supervisor's record is its own: it does not outlive its job in the directory.
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
  record.job_name = JobName(run.root(), RandomNonce());
  record.place = spec.launch().kubernetes().namespace_();
  record.submitted_at = UnixTime();
  return record;
}

bool HasToldItsEnd(const RunDirectory& run) {
  const std::optional<v1::RunEvent> newest = ReadNewestRunEvent(run.events());
  return newest && HasEnded(newest->state());
}

// A supervisor that lives here; of one on another machine nothing is known.
bool HasSupervisorHere(const RunDirectory& run) {
  const absl::StatusOr<ProcessRecord> process = ReadProcessRecord(run.process());
  return process.ok() && IsAlive(process->identity);
}

ScheduledState JobEnded(const RunDirectory& run, const SchedulerRecord& record,
                        const std::string& description) {
  if (record.cancelled_at > 0 || ReadStopRequest(run)) return {v1::RUN_STOPPED, ""};
  const char* when = HasBegun(run) ? " ended, and the run's supervisor with it: "
                                   : " ended before the run began: ";
  return {v1::RUN_FAILED,
          absl::StrCat("job ", record.job, when, description, "; see supervisor.log")};
}

}  // namespace

absl::StatusOr<SchedulerRecord> NextSubmission(Scheduler& scheduler, const RunDirectory& run,
                                               const v1::RunSpec& spec) {
  const std::optional<SchedulerRecord> last = ReadSchedulerRecord(run);
  if (!last) return NewSubmission(run, spec);
  if (last->job.empty() && !HasBegun(run)) return *last;
  if (last->job.empty()) return NewSubmission(run, spec);
  // Its job may be ending yet; there is nothing left in it to wait for.
  if (HasBegun(run) && HasToldItsEnd(run)) return NewSubmission(run, spec);
  ASSIGN_OR_RETURN(const JobStatus status, scheduler.Look(*last));
  if (status.phase == JobPhase::kEnded) return NewSubmission(run, spec);
  return absl::FailedPreconditionError(
      absl::StrCat(run.root().string(), " has job ", last->job, " already: ", status.description));
}

absl::Status SubmitRun(Scheduler& scheduler, const RunDirectory& run,
                       const std::filesystem::path& file, const SchedulerRecord& record) {
  const std::optional<SchedulerRecord> last = ReadSchedulerRecord(run);
  if (last && last->job_name == record.job_name) {
    ASSIGN_OR_RETURN(const std::optional<SchedulerRecord> found, scheduler.Find(record));
    if (found) return WriteSchedulerRecord(run, *found);
  }
  RETURN_IF_ERROR(WriteSchedulerRecord(run, record));
  RETURN_IF_ERROR(RemoveProcess(run));
  RETURN_IF_ERROR(run.RemoveExit());
  ASSIGN_OR_RETURN(const SchedulerRecord submitted, scheduler.Submit(file, record));
  return WriteSchedulerRecord(run, submitted);
}

std::optional<ScheduledState> LookAtScheduledRun(const RunDirectory& run) {
  const std::optional<SchedulerRecord> record = ReadSchedulerRecord(run);
  if (!record) return std::nullopt;
  const bool begun = HasBegun(run);
  if (begun && (HasToldItsEnd(run) || HasSupervisorHere(run))) return std::nullopt;
  Scheduler* const scheduler = SchedulerOf(record->backend);
  if (record->job.empty() || scheduler == nullptr) {
    if (begun) return std::nullopt;
    return ScheduledState{v1::RUN_STARTING, "being submitted"};
  }
  const absl::StatusOr<JobStatus> status = scheduler->Look(*record);
  if (!status.ok()) {
    if (begun) return std::nullopt;
    return ScheduledState{v1::RUN_QUEUED, std::string(status.status().message())};
  }
  // It may have begun, or have come to its end, since we looked.
  if (HasBegun(run) && (status->phase == JobPhase::kStarted || HasToldItsEnd(run))) {
    return std::nullopt;
  }
  if (status->phase == JobPhase::kEnded) return JobEnded(run, *record, status->description);
  const bool queued = status->phase == JobPhase::kQueued;
  return ScheduledState{queued ? v1::RUN_QUEUED : v1::RUN_STARTING, status->description};
}

std::string SchedulerJobOf(const RunDirectory& run) {
  const std::optional<SchedulerRecord> record = ReadSchedulerRecord(run);
  return record ? record->job : "";
}

absl::StatusOr<bool> CancelQueuedRun(const RunDirectory& run) {
  std::optional<SchedulerRecord> record = ReadSchedulerRecord(run);
  if (!record || record->job.empty() || HasBegun(run)) return false;
  Scheduler* const scheduler = SchedulerOf(record->backend);
  if (scheduler == nullptr) return false;
  // First, so that its end is known for what it is whatever happens to us.
  record->cancelled_at = UnixTime();
  RETURN_IF_ERROR(WriteSchedulerRecord(run, *record));
  RETURN_IF_ERROR(scheduler->Cancel(*record));
  return true;
}

absl::Status EndScheduledJob(const RunDirectory& run) {
  const std::optional<SchedulerRecord> record = ReadSchedulerRecord(run);
  if (!record || record->job.empty()) return absl::OkStatus();
  Scheduler* const scheduler = SchedulerOf(record->backend);
  return scheduler == nullptr ? absl::OkStatus() : scheduler->Cancel(*record);
}

absl::Status EndOverdueJob(const RunDirectory& run, double now) {
  const std::optional<StopRequest> stop = ReadStopRequest(run);
  std::optional<SchedulerRecord> record = ReadSchedulerRecord(run);
  if (!stop || !record || record->job.empty()) return absl::OkStatus();
  if (now - stop->requested_at < kJobGraceSeconds) return absl::OkStatus();
  if (now - record->cancelled_at < kCancelAgainSeconds) return absl::OkStatus();
  // First, so that any number of programs that look ask once.
  record->cancelled_at = now;
  RETURN_IF_ERROR(WriteSchedulerRecord(run, *record));
  return EndScheduledJob(run);
}

}  // namespace braid
