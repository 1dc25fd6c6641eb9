// A scheduler that queues runs: Slurm, or Kubernetes with the MPIJob operator (experimental). It
// starts braid-supervisor; from then on the run directory has the state, and the scheduler is asked
// only about runs that wait for it.
//
// A run is submitted at most once: its job has a unique name, which is written durably to
// scheduler.json before the submission, and a process that finds a name without a job there
// searches for the job before it submits.
#ifndef BRAID_CONTROL_LAUNCH_SCHEDULER_H_
#define BRAID_CONTROL_LAUNCH_SCHEDULER_H_

#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "braid/v1/training.pb.h"
#include "runs/run_directory.h"

namespace braid {

// scheduler.json of a run directory.
struct SchedulerRecord {
  v1::LaunchBackend backend = v1::LAUNCH_BACKEND_UNSPECIFIED;
  // Unique; ends in the nonce of the submission.
  std::string job_name;
  // The scheduler's id of the job: Slurm's job id, or the name of the MPIJob. Empty until the
  // scheduler has answered.
  std::string job;
  // Slurm: the cluster, empty when there is only one. Kubernetes: the namespace.
  std::string place;
  // Time of the last submission in Unix seconds.
  double submitted_at = 0;
  // Time of the last cancellation in Unix seconds; 0 if there was none.
  double cancelled_at = 0;
  // The scheduler's message when it refused the job; empty otherwise.
  std::string refusal = {};
};

std::filesystem::path SchedulerFile(const RunDirectory& run);
// Reads the record of the run. Absent when the file is missing or unreadable.
std::optional<SchedulerRecord> ReadSchedulerRecord(const RunDirectory& run);
// Returns DataLoss when the file exists but ReadSchedulerRecord cannot use it: another submission
// could start the run twice.
absl::Status CheckSchedulerRecord(const RunDirectory& run);
absl::Status WriteSchedulerRecord(const RunDirectory& run, const SchedulerRecord& record);

enum class JobPhase {
  kQueued,
  // Its processes are starting, running or exiting.
  kStarted,
  // Ended, or no longer known: schedulers forget jobs after a while.
  kEnded,
};

struct JobStatus {
  JobPhase phase = JobPhase::kEnded;
  // The scheduler's description, such as "PENDING (Resources)".
  std::string description;
  // The way in which the job ended, such as "reached its time limit"; empty if the scheduler does
  // not report it.
  std::string end = {};
  // The job was cancelled in the scheduler.
  bool cancelled = false;
};

enum class Freshness { kCached, kQueueOnly, kNow };

// The interface to a scheduler. Implementations are thread-safe. They run the scheduler's programs,
// found in PATH, by argument vector.
class Scheduler {
 public:
  virtual ~Scheduler() = default;

  // Checks for the scheduler's programs. FailedPrecondition, with what to install, when one is
  // missing.
  virtual absl::Status Check() const = 0;

  // Submits `file`. Requires that no job of this name exists. Returns the record with the job. An
  // error does not prove that nothing was submitted.
  virtual absl::StatusOr<SchedulerRecord> Submit(const std::filesystem::path& file,
                                                 const SchedulerRecord& record) = 0;

  // Returns the record with its job, if a job of its name exists, ended or not. Unavailable when
  // the scheduler does not answer.
  virtual absl::StatusOr<std::optional<SchedulerRecord>> Find(const SchedulerRecord& record) = 0;

  // Returns a name for messages, such as "Slurm job 12".
  virtual std::string NameOf(const SchedulerRecord& record) const = 0;

  // kCached: returns the cached status of the job and refreshes it in the background. It is as old
  // as the last call when calls are rare, but never from before the job's submission or
  // cancellation. Unavailable when there is no cached status and the scheduler does not answer
  // within half a second.
  // kQueueOnly: the same, except that a job that the queue does not list counts as ended without a
  // look into the accounting. For runs whose end is known, of which there are many.
  // kNow: asks the scheduler, for at most a minute. For decisions, such as to submit another job.
  virtual absl::StatusOr<JobStatus> Look(const SchedulerRecord& record, Freshness freshness) = 0;

  // Ends a job, queued or running. OK when it has ended already.
  virtual absl::Status Cancel(const SchedulerRecord& record) = 0;
};

// Returns the scheduler of a backend, or null for a backend without one. It lives as long as the
// process.
Scheduler* SchedulerOf(v1::LaunchBackend backend);

// Runs a program of the scheduler, for at most `timeout`, and returns the lines that it printed.
// Unavailable, with its standard error, when it fails. DeadlineExceeded when it took too long;
// whether it had an effect is then unknown.
absl::StatusOr<std::vector<std::string>> AskScheduler(
    std::vector<std::string> arguments, std::chrono::seconds timeout = std::chrono::seconds(60));

}  // namespace braid

#endif  // BRAID_CONTROL_LAUNCH_SCHEDULER_H_
