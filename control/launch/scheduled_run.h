// A run that a scheduler starts: from the request to submit it until its supervisor has begun,
// when scheduler.json and the scheduler are all there is to know it by.
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

// The record to submit under: that of a submission whose outcome is unknown, else a new one.
// FailedPrecondition when the last job is queued or runs; Unavailable when that cannot be asked.
absl::StatusOr<SchedulerRecord> NextSubmission(Scheduler& scheduler, const RunDirectory& run,
                                               const v1::RunSpec& spec);

// Records the intent, submits `file` unless a job of that name exists, records the job, or why
// there is none. Process and exit records of an earlier attempt go before. Requires LockLaunch.
absl::Status SubmitRun(Scheduler& scheduler, const RunDirectory& run,
                       const std::filesystem::path& file, const SchedulerRecord& record);

// What the scheduler knows of a run and its directory does not tell.
struct ScheduledState {
  // RUN_QUEUED, at first or again after a node has failed; RUN_STARTING when the scheduler has
  // let it go; RUN_STOPPED when its job ended because it was asked to; RUN_FAILED when it ended
  // by itself, or was never taken.
  v1::RunState state = v1::RUN_QUEUED;
  // The cause when RUN_FAILED, else the scheduler's words.
  std::string message;
};

// Absent for a run without a scheduler, and for one that its supervisor sees to or has seen to
// its end. When the scheduler cannot be asked, a run that has not begun stays RUN_QUEUED.
std::optional<ScheduledState> LookAtScheduledRun(const RunDirectory& run);

// What the scheduler calls the run's newest job; empty without one.
std::string SchedulerJobOf(const RunDirectory& run);

// Cancels the job of a run whose supervisor has not begun; false, and nothing is done, for any
// other run. Takes its turn with launches. Errors are the scheduler's; the job is then as before.
absl::StatusOr<bool> CancelQueuedRun(const RunDirectory& run);

// Ends the job of a run, running or not.
absl::Status EndScheduledJob(const RunDirectory& run);

// EndScheduledJob for a run that was asked to stop so long before `now`, in Unix seconds, that
// its supervisor should have killed it; asks again every half minute. Does nothing for others.
absl::Status EndOverdueJob(const RunDirectory& run, double now);

}  // namespace braid

#endif  // BRAID_CONTROL_LAUNCH_SCHEDULED_RUN_H_
