// A run that a scheduler starts, from its submission until its supervisor has begun. In that time
// only scheduler.json and the scheduler know about it.
#ifndef BRAID_CONTROL_LAUNCH_SCHEDULED_RUN_H_
#define BRAID_CONTROL_LAUNCH_SCHEDULED_RUN_H_

#include <filesystem>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "braid/v1/training.pb.h"
#include "control/launch/scheduler.h"
#include "runs/run_directory.h"

namespace braid {

// Returns the record for the next submission: that of a submission whose outcome is unknown,
// otherwise a new one. FailedPrecondition when the last job is queued or running; Unavailable when
// the scheduler does not answer.
absl::StatusOr<SchedulerRecord> NextSubmission(Scheduler& scheduler, const RunDirectory& run,
                                               const v1::RunSpec& spec);

// Records the intent, submits `file` unless a job of that name exists, and records the job, or the
// scheduler's refusal, which is FailedPrecondition. Removes the process and exit records of an
// earlier attempt first. Requires LockLaunch.
absl::Status SubmitRun(Scheduler& scheduler, const RunDirectory& run,
                       const std::filesystem::path& file, const SchedulerRecord& record);

// The part of a run's state that the scheduler knows and the run directory does not contain.
struct ScheduledState {
  // RUN_QUEUED at first, and again after a node failure; RUN_STARTING when the scheduler has
  // started the job; RUN_STOPPED when the job was cancelled; RUN_FAILED when it ended by itself or
  // was refused. RUN_STATE_UNSPECIFIED when the scheduler runs the job, so that the events of its
  // supervisor hold, even if it is on another machine and silent.
  v1::RunState state = v1::RUN_QUEUED;
  // The cause of RUN_FAILED, otherwise the reason of the state; may be empty.
  std::string message;
};

// Returns the state of a run according to its scheduler. Absent for a run without a scheduler, for
// one whose supervisor is alive here, and for one whose end is recorded, unless the scheduler has
// queued its job again; a run that has succeeded stays so. While the scheduler does not answer, a
// run that has not begun is RUN_QUEUED.
std::optional<ScheduledState> LookAtScheduledRun(const RunDirectory& run);

// Returns the scheduler's id of the run's newest job; empty without one.
std::string SchedulerJobOf(const RunDirectory& run);

// Cancels the job of a run that is in the scheduler's queue, for the first time or again. Returns
// false, and does nothing, for any other run. Takes LockLaunch. Errors are those of the scheduler,
// and leave the job as it was.
absl::StatusOr<bool> CancelQueuedRun(const RunDirectory& run);

// Ends the job of a run, whether it is queued or running.
absl::Status EndScheduledJob(const RunDirectory& run);

// Calls EndScheduledJob for a run that a user asked to stop so long before `now`, in Unix seconds,
// that its supervisor should have ended it; again every 30 seconds. Does nothing for other runs.
absl::Status EndOverdueJob(const RunDirectory& run, double now);

}  // namespace braid

#endif  // BRAID_CONTROL_LAUNCH_SCHEDULED_RUN_H_
