// Threads that run the queued jobs of a home.
#ifndef BRAID_PIPELINE_JOBS_JOB_WORKER_H_
#define BRAID_PIPELINE_JOBS_JOB_WORKER_H_

#include <atomic>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/file_lock.h"
#include "braid/v1/pipeline.pb.h"
#include "pipeline/jobs/job_store.h"
#include "pipeline/store/stage_store.h"

namespace braid {

// In a home: a FileLock, so that one process at a time runs its jobs.
inline constexpr char kWorkerLockFile[] = "worker.lock";

// Holds the home's worker lock while it has something to run; on taking it, jobs
// that a dead process left RUNNING are queued again. Waits for jobs without
// polling faster than five times a second.
class JobWorker {
 public:
  // Runs up to `num_jobs` jobs at a time; after a failure that may pass a job pauses for
  // `retry_seconds` and then longer (retry_policy.h). Requires: num_jobs >= 0; `jobs` and
  // `stages` outlive this.
  JobWorker(const std::filesystem::path& home, JobStore* jobs, StageStore* stages, int num_jobs,
            double retry_seconds);
  // Interrupts running jobs at their next commit point and queues them again.
  ~JobWorker();

  // ResourceExhausted when the job's last run here ended but the end could not be
  // recorded (a full disk): no event will tell those who wait for it.
  absl::Status Unrecorded(const std::string& id);

 private:
  void Loop();
  absl::StatusOr<std::optional<v1::Job>> Claim();
  absl::StatusOr<bool> HoldLock();
  void Release();
  void Run(const v1::Job& job);
  absl::StatusOr<v1::JobResult> RunStages(const v1::Job& job);
  absl::Status Record(const v1::Job& job, const absl::StatusOr<v1::JobResult>& result);

  const std::filesystem::path lock_file_;
  JobStore* const jobs_;
  StageStore* const stages_;
  const double retry_seconds_;
  std::atomic<bool> stopping_{false};
  std::mutex mutex_;  // guards lock_, num_running_, unrecorded_
  std::optional<FileLock> lock_;
  int num_running_ = 0;
  std::map<std::string, absl::Status> unrecorded_;
  std::vector<std::jthread> threads_;
};

}  // namespace braid

#endif  // BRAID_PIPELINE_JOBS_JOB_WORKER_H_
