// Slurm, through sbatch, squeue, sacct and scancel.
#ifndef BRAID_CONTROL_LAUNCH_SLURM_JOBS_H_
#define BRAID_CONTROL_LAUNCH_SLURM_JOBS_H_

#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "control/launch/background_answer.h"
#include "control/launch/scheduler.h"

namespace braid {

// One line of `squeue --format=%i|%T|%r|%j`.
struct SlurmJob {
  std::string id;
  std::string state;   // such as PENDING
  std::string reason;  // such as Resources; "None" without one
  std::string name;
};

// Parses a line of squeue. Absent when it has another form.
std::optional<SlurmJob> ParseSlurmJob(std::string_view line);

// Returns "reached its time limit (TIMEOUT)", and the like; "ended (STATE)" for other states.
std::string TextOfSlurmEnd(std::string_view state);

// Maps a state that squeue or sacct prints, such as PENDING.
JobPhase PhaseOfSlurmState(std::string_view state);

// Parses the output of `sbatch --parsable`, "1234" or "1234;cluster", into the record. Unavailable
// for anything else.
absl::Status ReadSbatchAnswer(const std::vector<std::string>& lines, SchedulerRecord* record);

class SlurmJobs final : public Scheduler {
 public:
  SlurmJobs();
  absl::Status Check() const override;
  absl::StatusOr<SchedulerRecord> Submit(const std::filesystem::path& file,
                                         const SchedulerRecord& record) override;
  absl::StatusOr<std::optional<SchedulerRecord>> Find(const SchedulerRecord& record) override;
  std::string NameOf(const SchedulerRecord& record) const override;
  // Runs squeue at most once a second, for all runs together, and sacct at most once a minute for a
  // job that squeue no longer lists.
  absl::StatusOr<JobStatus> Look(const SchedulerRecord& record, Freshness freshness) override;
  absl::Status Cancel(const SchedulerRecord& record) override;

 private:
  absl::StatusOr<JobStatus> LookAtForgotten(const std::string& job);

  BackgroundAnswer<std::vector<SlurmJob>> queue_;
  std::mutex mutex_;  // guards accounted_
  // The state of each job that squeue no longer lists, from sacct; empty when unknown.
  std::map<std::string, BackgroundAnswer<std::string>> accounted_;
};

}  // namespace braid

#endif  // BRAID_CONTROL_LAUNCH_SLURM_JOBS_H_
