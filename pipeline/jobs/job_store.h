// The durable list of corpus jobs and their numbered events, in SQLite.
//
// Guarantees:
//  - what a call returned is on disk (WAL, synchronous=FULL);
//  - a job only moves along the arrows of IsLegalTransition (job_state.h);
//  - every change of a job is an event; numbers grow by one without gap, across
//    restarts and processes;
//  - one request id is one job: submitting it again with the same spec returns
//    that job, with another spec ALREADY_EXISTS.
//
// Thread-safe; several processes may open the same home. Only the holder of the
// home's worker lock (job_worker.h) may call ClaimNext, RequeueOrphans and the
// calls that end a running job.
//
// Jobs of one principal start in the order of their numbers; principals take turns.
//
// Errors: NOT_FOUND for an unknown id, FAILED_PRECONDITION for an illegal
// transition, RESOURCE_EXHAUSTED for a full disk, UNAVAILABLE while another
// process keeps the database locked.
#ifndef BRAID_PIPELINE_JOBS_JOB_STORE_H_
#define BRAID_PIPELINE_JOBS_JOB_STORE_H_

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "braid/v1/pipeline.pb.h"
#include "pipeline/jobs/job_table.h"

namespace SQLite {
class Database;
}

namespace braid {

// Who submits, and how many jobs they may have queued or running; 0: no limit.
struct Submitter {
  std::string principal = "local";
  int64_t max_unfinished = 0;
};

class JobStore {
 public:
  using Clock = std::function<double()>;  // Unix seconds
  static constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max();

  // Opens or creates HOME/jobs.sqlite.
  static absl::StatusOr<std::unique_ptr<JobStore>> Open(const std::filesystem::path& home,
                                                        Clock clock = SystemClock());
  static Clock SystemClock();
  ~JobStore();

  // Records a QUEUED job, or finds the one with this request id. RESOURCE_EXHAUSTED when the
  // submitter has as many jobs as it may.
  absl::StatusOr<v1::Job> Submit(const v1::CorpusSpec& spec, const std::string& request_id,
                                 const Submitter& submitter = {});

  // Whether a job was submitted with this request id.
  absl::StatusOr<bool> Knows(const std::string& request_id);

  absl::StatusOr<v1::Job> Get(const std::string& id);
  // Newest first: at most `limit`, older than the job `before` unless that is empty.
  absl::StatusOr<std::vector<v1::Job>> List(const std::string& before = "",
                                            int64_t limit = kUnlimited);
  // Events with numbers above `after`, ascending, at most 1000, and no more once they have
  // `max_bytes`.
  absl::StatusOr<std::vector<v1::JobEvent>> EventsAfter(const std::string& id, int64_t after,
                                                        int64_t max_bytes = kUnlimited);

  // A queued job is CANCELLED at once; a running one is marked, and its worker
  // ends it. Cancelling a cancelled job changes nothing.
  absl::StatusOr<v1::Job> RequestCancel(const std::string& id);
  absl::StatusOr<bool> CancelRequested(const std::string& id);
  // FAILED or CANCELLED -> QUEUED, with attempts counted anew. Resuming a queued or running
  // job changes nothing. RESOURCE_EXHAUSTED when its submitter has `max_unfinished` jobs queued
  // or running; 0: no limit.
  absl::StatusOr<v1::Job> Resume(const std::string& id, int64_t max_unfinished = 0);

  // True when a job is queued or running.
  absl::StatusOr<bool> HasUnfinished();
  // The queued job whose turn it is, now RUNNING; nullopt when there is none.
  absl::StatusOr<std::optional<v1::Job>> ClaimNext();
  // Jobs left RUNNING by a dead process: CANCELLED if that had been asked for, else a
  // failed attempt.
  absl::Status RequeueOrphans();
  absl::Status RecordProgress(const std::string& id, const v1::StageProgress& progress);
  absl::Status Succeed(const std::string& id, const v1::JobResult& result);
  absl::Status Fail(const std::string& id, const std::string& error);
  // An attempt failed for a cause that may pass: QUEUED again, to be started
  // RetryDelaySeconds(failures, first_delay) later, or FAILED after kMaxFailures
  // (retry_policy.h).
  absl::Status Retry(const std::string& id, const std::string& cause, double first_delay);
  absl::Status MarkCancelled(const std::string& id);
  absl::Status Requeue(const std::string& id, const std::string& why);

  // Waits until this process has changed something since `seen` was returned by
  // changes(), or until the timeout (another process may have).
  uint64_t changes() const;
  void WaitForChange(uint64_t seen, std::chrono::milliseconds timeout) const;
  // Ends all waits, as a change would.
  void Wake();
  // Differs from the one before when the job may have changed, here or in another process.
  uint64_t VersionOf(const std::string& id);
  // Called after every change by this process, from the thread that made it. Set it before
  // there are other threads; nullptr ends it.
  void SetListener(std::function<void()> listener);

 private:
  JobStore(std::filesystem::path path, std::unique_ptr<SQLite::Database> database, Clock clock);

  template <class Body>
  auto Guard(Body body) -> decltype(body());
  template <class Body>
  auto Transact(Body body) -> decltype(body());
  void Changed();
  absl::Status CheckQuota(const Submitter& submitter);
  absl::Status FailAttempt(int64_t number, const std::string& cause, double first_delay);
  void AppendEvent(int64_t number, v1::JobState state, const std::string& message,
                   const v1::StageProgress* progress = nullptr);
  absl::StatusOr<v1::Job> Move(int64_t number, v1::JobState to, const std::string& message,
                               const std::string& error = "", const v1::JobResult* result = nullptr,
                               double not_before = 0);
  absl::Status MoveById(const std::string& id, v1::JobState to, const std::string& message,
                        const std::string& error = "", const v1::JobResult* result = nullptr);

  const std::filesystem::path path_;
  const Clock clock_;
  mutable std::mutex mutex_;  // guards what follows
  std::unique_ptr<SQLite::Database> database_;
  JobTable table_;
  mutable std::condition_variable changed_;
  uint64_t changes_ = 0;
  bool has_new_events_ = false;  // in the transaction that is open
  // The value of changes_ after the newest change of a job by this process, and of all jobs
  // (by another process, or by Wake).
  std::unordered_map<int64_t, uint64_t> changed_at_;
  uint64_t all_changed_at_ = 0;
  int64_t data_version_ = 0;
  std::function<void()> listener_;
};

}  // namespace braid

#endif  // BRAID_PIPELINE_JOBS_JOB_STORE_H_
