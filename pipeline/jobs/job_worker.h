// The threads that run the queued jobs of a home directory.
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
#include "braid/v1/job.pb.h"
#include "pipeline/jobs/job_store.h"
#include "pipeline/store/stage_store.h"

namespace braid {

// The lock file in a home directory: only the process that holds it runs jobs.
inline constexpr char kWorkerLockFile[] = "worker.lock";

// Runs jobs while it holds the worker lock of the home directory, which it takes when there is a
// job to run and releases when there is none. Since the lock is free only when its last holder has
// no running job or is dead, a worker that takes it first queues all RUNNING jobs again. Polls for
// jobs of other processes at most five times per second. Thread-safe.
class JobWorker {
 public:
  // Runs up to `num_jobs` jobs concurrently. After its first transient failure a job waits for
  // `retry_seconds`, then longer (retry_policy.h). Requires: num_jobs >= 0; `jobs` and `stages`
  // outlive the worker.
  JobWorker(const std::filesystem::path& home, JobStore* jobs, StageStore* stages, int num_jobs,
            double retry_seconds);
  // Interrupts running jobs at their next commit point and queues them again.
  ~JobWorker();

  // Returns RESOURCE_EXHAUSTED when the last attempt of the job in this process ended but its end
  // could not be recorded (a full disk), so that those who wait for an event can be notified; else
  // OK.
  absl::Status Unrecorded(const std::string& id);

 private:
  void Loop();
  absl::StatusOr<std::optional<v1::Job>> Claim();
  absl::StatusOr<bool> HoldLock();
  // Prints the error of a claim unless it is that of the claim before.
  void Report(const absl::Status& claim);
  void Release();
  void Run(const v1::Job& job);
  absl::StatusOr<v1::JobResult> RunStages(const v1::Job& job);
  absl::Status Record(const v1::Job& job, const absl::StatusOr<v1::JobResult>& result);

  const std::filesystem::path lock_file_;
  JobStore* const jobs_;
  StageStore* const stages_;
  const double retry_seconds_;
  std::atomic<bool> stopping_{false};
  std::mutex mutex_;  // guards lock_, num_running_, unrecorded_, claim_error_
  std::optional<FileLock> lock_;
  int num_running_ = 0;
  std::map<std::string, absl::Status> unrecorded_;
  std::string claim_error_;
  std::vector<std::jthread> threads_;
};

}  // namespace braid

#endif  // BRAID_PIPELINE_JOBS_JOB_WORKER_H_
