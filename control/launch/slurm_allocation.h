// The Slurm job that a supervisor runs in: its batch script is the supervisor.
#ifndef BRAID_CONTROL_LAUNCH_SLURM_ALLOCATION_H_
#define BRAID_CONTROL_LAUNCH_SLURM_ALLOCATION_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "control/supervision/scheduler_job.h"
#include "runs/run_directory.h"

namespace braid {

// The allocation of a job, from the variables that Slurm sets in it.
struct SlurmAllocation {
  std::string job;       // SLURM_JOB_ID
  std::string job_name;  // SLURM_JOB_NAME
  std::string nodes;     // SLURM_JOB_NODELIST, such as "n[1-2]"
  int restarts = 0;      // SLURM_RESTART_COUNT: how often Slurm has queued the job again
};

// Returns the job, submitted for `run`, that this process runs in; absent elsewhere, also in an
// allocation in which braid runs.
std::optional<SlurmAllocation> OwnSlurmJob(const RunDirectory& run);

// Checks that `run` has no newer job. FailedPrecondition if it has one: Slurm has started an old
// job again.
absl::Status CheckNewestJob(const SlurmAllocation& job, const RunDirectory& run);

// Returns the job as the supervisor sees it; its question runs scontrol and sinfo.
SchedulerJob JobOfSupervisor(const SlurmAllocation& job);

// Interprets a line of `scontrol show job --oneliner` about a job that is being ended, and the
// lines "NODE|STATE|REASON" of sinfo about its nodes.
JobEnd EndOfSlurmJob(const SlurmAllocation& job, std::string_view scontrol,
                     const std::vector<std::string>& sinfo);

}  // namespace braid

#endif  // BRAID_CONTROL_LAUNCH_SLURM_ALLOCATION_H_
