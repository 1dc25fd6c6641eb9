// A scheduler that starts runs when it sees fit: Slurm, or Kubernetes with the operator of
// MPIJobs. What it starts is braid-supervisor, and from then on the run directory tells all;
// a scheduler is asked only about a run that waits for it.
//
// A run is submitted at most once: its job has a name that no other has, scheduler.json keeps
// that name durably before the scheduler hears of it, and whoever finds a name without a job
// there looks for the job first.
#ifndef BRAID_CONTROL_LAUNCH_SCHEDULER_H_
#define BRAID_CONTROL_LAUNCH_SCHEDULER_H_

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
  // What the scheduler calls it: Slurm's job id, or the name of the MPIJob. Empty until the
  // scheduler has answered.
  std::string job;
  // Slurm's cluster, empty for the only one; the namespace in Kubernetes.
  std::string place;
  // When the scheduler was last asked to take it; Unix seconds.
  double submitted_at = 0;
  // When somebody last cancelled it; 0 if nobody did.
  double cancelled_at = 0;
  // Why the scheduler did not take it, in its words; empty when it did, or has not answered.
  std::string refusal = {};
};

std::filesystem::path SchedulerFile(const RunDirectory& run);
// Absent without the file, or when it is unreadable.
std::optional<SchedulerRecord> ReadSchedulerRecord(const RunDirectory& run);
absl::Status WriteSchedulerRecord(const RunDirectory& run, const SchedulerRecord& record);

enum class JobPhase {
  kQueued,
  // Its processes are starting, run or end.
  kStarted,
  // Ended, or forgotten: schedulers do not remember for long.
  kEnded,
};

struct JobStatus {
  JobPhase phase = JobPhase::kEnded;
  // The scheduler's own words, such as "PENDING (Resources)".
  std::string description;
};

// Implementations are thread-safe and run the scheduler's programs, found in PATH, by
// argument vector.
class Scheduler {
 public:
  virtual ~Scheduler() = default;

  // FailedPrecondition, with what to install, when the scheduler's programs are missing.
  virtual absl::Status Check() const = 0;

  // Submits what the launch wrote to `file`; the job of that name must not exist. Returns the
  // record with the job in it. An error does not prove that nothing was submitted.
  virtual absl::StatusOr<SchedulerRecord> Submit(const std::filesystem::path& file,
                                                 const SchedulerRecord& record) = 0;

  // The record with its job, if there is one of its name, ended or not. Unavailable when the
  // scheduler cannot be asked.
  virtual absl::StatusOr<std::optional<SchedulerRecord>> Find(const SchedulerRecord& record) = 0;

  // The last answer, at once, while the scheduler is asked anew in the background: mostly a second
  // old, older when it hangs. Never from before the job's submission or cancellation. Unavailable
  // when the scheduler cannot be asked, or has been asked and not answered for half a second.
  virtual absl::StatusOr<JobStatus> Look(const SchedulerRecord& record) = 0;

  // Ends a job, running or not. No error when it has ended already.
  virtual absl::Status Cancel(const SchedulerRecord& record) = 0;
};

// The scheduler of a backend; null for those without. It lives as long as the process.
Scheduler* SchedulerOf(v1::LaunchBackend backend);

// Runs a scheduler's program with the service's settings, at most 60 seconds; what it printed,
// by lines. Unavailable, with what it said on standard error, when it fails; DeadlineExceeded when
// it took too long, and then nobody knows what came of it.
absl::StatusOr<std::vector<std::string>> AskScheduler(std::vector<std::string> arguments);

}  // namespace braid

#endif  // BRAID_CONTROL_LAUNCH_SCHEDULER_H_
