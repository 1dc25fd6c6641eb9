// The durable list of corpus jobs and their numbered events, in SQLite.
//
// Guarantees:
//  - a change is on disk when the call that makes it returns (synchronous=FULL or EXTRA);
//  - jobs change their state only along the transitions of job_state.h;
//  - every change of a job is an event; the numbers of events increase by one without gaps, across
//    restarts and processes;
//  - one request id is one job: submitting it again returns that job if the spec is the same, and
//    ALREADY_EXISTS otherwise;
//  - the jobs of one principal start in the order of their numbers; principals take turns.
//
// Thread-safe; several processes may open the same home directory. Only the holder of its worker
// lock (job_worker.h) may call ClaimNext, RequeueOrphans and the functions that end a running job.
//
// Errors of all functions: DATA_LOSS for a job whose row was damaged, which is never started;
// NOT_FOUND for an unknown id, FAILED_PRECONDITION for an illegal
// transition, RESOURCE_EXHAUSTED for a full disk, UNAVAILABLE while another process has locked the
// database.
#ifndef BRAID_PIPELINE_JOBS_JOB_STORE_H_
#define BRAID_PIPELINE_JOBS_JOB_STORE_H_

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "braid/v1/corpus.pb.h"
#include "braid/v1/job.pb.h"
#include "pipeline/jobs/job_table.h"

namespace SQLite {
class Database;
}

namespace braid {

// The principal that submits a job, and its quota.
struct Submitter {
  std::string principal = "local";
  int64_t max_unfinished = 0;  // maximum number of queued and running jobs; 0: no limit
};

class JobStore {
 public:
  using Clock = std::function<double()>;  // Unix seconds
  static constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max();

  // Opens or creates HOME/jobs.sqlite, with the journal that its file system needs
  // (base/database_journal.h).
  static absl::StatusOr<std::unique_ptr<JobStore>> Open(const std::filesystem::path& home,
                                                        Clock clock = SystemClock());
  static Clock SystemClock();
  ~JobStore();

  // Records a QUEUED job, or returns the existing one of the submitter with this request id.
  // RESOURCE_EXHAUSTED when the quota of the submitter is used up.
  absl::StatusOr<v1::Job> Submit(const v1::CorpusSpec& spec, const std::string& request_id,
                                 const Submitter& submitter = {});

  // Returns the job that the principal submitted with this request id; nullopt when there is none.
  absl::StatusOr<std::optional<v1::Job>> OfRequest(const std::string& request_id,
                                                   const std::string& principal);

  // Returns the job with its stages and result.
  absl::StatusOr<v1::Job> Get(const std::string& id);
  // Returns at most `limit` jobs, newest first; only those older than the job `before` unless that
  // is empty.
  absl::StatusOr<std::vector<v1::Job>> List(const std::string& before = "",
                                            int64_t limit = kUnlimited);
  // Returns the directories of attempts before the last one (job_directories.h), by the id of the
  // job.
  absl::StatusOr<std::map<std::string, std::set<std::string>>> EarlierDirectories();
  // Returns the events with numbers above `after`, ascending: at most 1000, and none after the one
  // with which they reach `max_bytes`.
  absl::StatusOr<std::vector<v1::JobEvent>> EventsAfter(const std::string& id, int64_t after,
                                                        int64_t max_bytes = kUnlimited);

  // Cancels a queued job at once; marks a running one, which its worker then ends. Has no effect on
  // a canceled job.
  absl::StatusOr<v1::Job> RequestCancel(const std::string& id);
  // Returns whether the job was asked to end, for its worker to poll.
  absl::StatusOr<bool> CancelRequested(const std::string& id);
  // Queues a FAILED or CANCELLED job again and resets its count of attempts. Has no effect on a
  // queued or running job. RESOURCE_EXHAUSTED when its principal already has `max_unfinished`
  // queued and running jobs; 0: no limit.
  absl::StatusOr<v1::Job> Resume(const std::string& id, int64_t max_unfinished = 0);

  // Returns whether any job is queued or running.
  absl::StatusOr<bool> HasUnfinished();
  // Moves the next queued job to RUNNING and returns it; nullopt when there is none. Fails damaged
  // jobs on the way.
  absl::StatusOr<std::optional<v1::Job>> ClaimNext();
  // Handles the jobs that a dead process left RUNNING: cancels those with a pending request to
  // cancel and counts a failed attempt for the others.
  absl::Status RequeueOrphans();
  // Records the progress of a stage as an event.
  absl::Status RecordProgress(const std::string& id, const v1::StageProgress& progress);
  // End a running job: with its result, or for good with an error.
  absl::Status Succeed(const std::string& id, const v1::JobResult& result);
  absl::Status Fail(const std::string& id, const std::string& error);
  // Records an attempt that failed with a transient error: queues the job again, to start after
  // RetryDelaySeconds(failures, first_delay), or fails it after kMaxFailures (retry_policy.h). With
  // a pending request to cancel, cancels it.
  absl::Status Retry(const std::string& id, const std::string& cause, double first_delay);
  // Ends a running job as CANCELLED.
  absl::Status MarkCancelled(const std::string& id);
  // Queues a running job again, which does not count as a failed attempt. With a pending request to
  // cancel, cancels it.
  absl::Status Requeue(const std::string& id, const std::string& why);

  // Blocks until this process has made a change since changes() returned `seen`, or until the
  // timeout. Changes by other processes do not end the wait.
  uint64_t changes() const;
  void WaitForChange(uint64_t seen, std::chrono::milliseconds timeout) const;
  // Ends all waits, as a change does.
  void Wake();
  // Returns a number that increases when the job may have changed, in this or another process.
  uint64_t VersionOf(const std::string& id);
  // Sets a function that is called after every change by this process, on the thread that made it
  // and with the store locked, so it must not use the store; nullptr removes it. Other threads may
  // use the store meanwhile: an earlier function is not called any more once this returns.
  void SetListener(std::function<void()> listener);

 private:
  JobStore(std::filesystem::path path, std::unique_ptr<SQLite::Database> database, Clock clock);

  template <class Body>
  auto Guard(Body body) -> decltype(body());
  template <class Body>
  auto Transact(Body body) -> decltype(body());
  void Changed();
  absl::Status CheckQuota(const Submitter& submitter);
  bool FailIfDamaged(int64_t number);
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
  mutable std::mutex mutex_;  // guards all members below
  std::unique_ptr<SQLite::Database> database_;
  JobTable table_;
  mutable std::condition_variable changed_;
  uint64_t changes_ = 0;
  bool has_new_events_ = false;  // in the open transaction
  // The value of changes_ after the latest change of a job by this process, and after the latest
  // change that may concern all jobs (by another process, or by Wake).
  std::unordered_map<int64_t, uint64_t> changed_at_;
  uint64_t all_changed_at_ = 0;
  int64_t data_version_ = 0;
  std::function<void()> listener_;
};

}  // namespace braid

#endif  // BRAID_PIPELINE_JOBS_JOB_STORE_H_
