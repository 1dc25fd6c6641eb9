#include "pipeline/jobs/job_store.h"

#include <SQLiteCpp/Database.h>
#include <SQLiteCpp/Transaction.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/utf8.h"
#include "pipeline/jobs/job_database.h"
#include "pipeline/jobs/job_directories.h"
#include "pipeline/jobs/job_id.h"
#include "pipeline/jobs/job_state.h"
#include "pipeline/jobs/retry_policy.h"
#include "proto/state_name.h"

namespace braid {
namespace {

constexpr int64_t kEventsPerCall = 1000;

// Returns how far a job has come, as a number that increases from stage to stage and with every
// resume point, from which the next attempt continues.
int64_t PlaceOf(const v1::StageProgress& progress, const v1::Job& job) {
  int64_t stage = 0;
  while (stage < job.stages_size() &&
         job.stages(static_cast<int>(stage)).stage() != progress.stage()) {
    ++stage;
  }
  return ((stage + 1) << 40) + progress.num_resume_points();
}

// Describes an attempt whose process died.
std::string DiedDescription(const v1::Job& job) {
  const std::string stage =
      job.stages().empty() ? "" : absl::StrCat(" in stage ", job.stages().rbegin()->stage());
  return absl::StrCat("the worker process ended without a result", stage,
                      " (killed, out of memory or crashed)");
}

}  // namespace

JobStore::Clock JobStore::SystemClock() {
  return [] {
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    return std::chrono::duration<double>(now).count();
  };
}

JobStore::JobStore(std::filesystem::path path, std::unique_ptr<SQLite::Database> database,
                   Clock clock)
    : path_(std::move(path)),
      clock_(std::move(clock)),
      database_(std::move(database)),
      table_(database_.get()) {}

JobStore::~JobStore() = default;

absl::StatusOr<std::unique_ptr<JobStore>> JobStore::Open(const std::filesystem::path& home,
                                                         Clock clock) {
  ASSIGN_OR_RETURN(auto database, OpenJobDatabase(home));
  return std::unique_ptr<JobStore>(
      new JobStore(JobDatabasePath(home), std::move(database), std::move(clock)));
}

template <class Body>
auto JobStore::Guard(Body body) -> decltype(body()) {
  std::lock_guard lock(mutex_);
  try {
    return body();
  } catch (const SQLite::Exception& error) {
    return JobDatabaseError(error, path_);
  }
}

// Runs `body` as one transaction, committed when it returns OK.
template <class Body>
auto JobStore::Transact(Body body) -> decltype(body()) {
  return Guard([&]() -> decltype(body()) {
    SQLite::Transaction transaction(*database_, SQLite::TransactionBehavior::IMMEDIATE);
    has_new_events_ = false;
    auto result = body();
    if (!result.ok()) return result;
    transaction.commit();
    // Notifies of new events only: a notification for every transaction would make the waiting
    // threads, which run transactions when they wake, wake each other forever.
    if (has_new_events_) Changed();
    return result;
  });
}

void JobStore::Changed() {
  ++changes_;
  changed_.notify_all();
  // Called with mutex_ held, so the listener must not call the store.
  if (listener_) listener_();
}

void JobStore::AppendEvent(int64_t number, v1::JobState state, const std::string& message,
                           const v1::StageProgress* progress) {
  v1::JobEvent event;
  event.set_time(clock_());
  event.set_state(state);
  event.set_message(ReplaceInvalidUtf8(message));
  if (progress != nullptr) *event.mutable_progress() = *progress;
  table_.AppendEvent(number, std::move(event));
  // The value that Changed() gives. After a rollback, watchers make one query too many.
  changed_at_[number] = changes_ + 1;
  has_new_events_ = true;
}

absl::StatusOr<v1::Job> JobStore::Move(int64_t number, v1::JobState to, const std::string& message,
                                       const std::string& error, const v1::JobResult* result,
                                       double not_before) {
  ASSIGN_OR_RETURN(const v1::Job job, table_.Read(number));
  if (!IsLegalTransition(job.state(), to)) {
    return absl::FailedPreconditionError(absl::StrCat(job.id(), " is ", StateName(job.state()),
                                                      " and cannot become ", StateName(to)));
  }
  // A new attempt reports all stages again; those that were committed are reported as reused. With
  // another input, it has other directories.
  const bool again = to == v1::JOB_QUEUED;
  if (again) KeepDirectories(*database_, number, DirectoriesOf(job));
  table_.Update(number, {.state = to,
                         .error = error,
                         .result = result,
                         .finished = IsFinal(to) ? clock_() : 0.0,
                         .not_before = not_before,
                         .clear_stages = again});
  AppendEvent(number, to, message);
  return table_.Read(number);
}

absl::Status JobStore::MoveById(const std::string& id, v1::JobState to, const std::string& message,
                                const std::string& error, const v1::JobResult* result) {
  return Transact([&]() -> absl::Status {
    ASSIGN_OR_RETURN(const int64_t number, JobNumber(id));
    return Move(number, to, message, error, result).status();
  });
}

absl::Status JobStore::CheckQuota(const Submitter& submitter) {
  if (submitter.max_unfinished == 0) return absl::OkStatus();
  const int64_t unfinished = table_.NumUnfinished(submitter.principal);
  if (unfinished < submitter.max_unfinished) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("jobs of ", submitter.principal, ": ", unfinished,
                   " are queued or running, the limit is ", submitter.max_unfinished,
                   "; wait for one to end, cancel one, or ask for a higher --quota-jobs"));
}

absl::StatusOr<v1::Job> JobStore::Submit(const v1::CorpusSpec& spec, const std::string& request_id,
                                         const Submitter& submitter) {
  return Transact([&]() -> absl::StatusOr<v1::Job> {
    if (std::optional<v1::Job> known = table_.OfRequest(request_id, submitter.principal)) {
      if (SameSpec(known->spec(), spec)) return *std::move(known);
      return absl::AlreadyExistsError(absl::StrCat("request id \"", request_id, "\" belongs to ",
                                                   known->id(),
                                                   ", which has a different spec; choose another"));
    }
    // After the search: a repeated request returns its job also at the limit.
    RETURN_IF_ERROR(CheckQuota(submitter));
    const int64_t number = table_.Insert(spec, request_id, submitter.principal, clock_());
    AppendEvent(number, v1::JOB_QUEUED, "submitted");
    return table_.Read(number);
  });
}

absl::StatusOr<std::optional<v1::Job>> JobStore::OfRequest(const std::string& request_id,
                                                           const std::string& principal) {
  return Guard([&]() -> absl::StatusOr<std::optional<v1::Job>> {
    return table_.OfRequest(request_id, principal);
  });
}

absl::StatusOr<v1::Job> JobStore::Get(const std::string& id) {
  ASSIGN_OR_RETURN(const int64_t number, JobNumber(id));
  return Guard([&]() -> absl::StatusOr<v1::Job> { return table_.Read(number); });
}

absl::StatusOr<std::vector<v1::Job>> JobStore::List(const std::string& before, int64_t limit) {
  int64_t first = kUnlimited;
  if (!before.empty()) {
    ASSIGN_OR_RETURN(first, JobNumber(before));
  }
  return Guard(
      [&]() -> absl::StatusOr<std::vector<v1::Job>> { return table_.Before(first, limit); });
}

absl::StatusOr<std::map<std::string, std::set<std::string>>> JobStore::EarlierDirectories() {
  return Guard([&]() -> absl::StatusOr<std::map<std::string, std::set<std::string>>> {
    std::map<std::string, std::set<std::string>> directories;
    for (auto& [number, kept] : KeptDirectories(*database_)) directories[JobId(number)].merge(kept);
    return directories;
  });
}

absl::StatusOr<std::vector<v1::JobEvent>> JobStore::EventsAfter(const std::string& id,
                                                                int64_t after, int64_t max_bytes) {
  ASSIGN_OR_RETURN(const int64_t number, JobNumber(id));
  return Guard([&]() -> absl::StatusOr<std::vector<v1::JobEvent>> {
    RETURN_IF_ERROR(table_.Read(number).status());
    return table_.EventsAfter(number, after, kEventsPerCall, max_bytes);
  });
}

absl::StatusOr<v1::Job> JobStore::RequestCancel(const std::string& id) {
  return Transact([&]() -> absl::StatusOr<v1::Job> {
    ASSIGN_OR_RETURN(const int64_t number, JobNumber(id));
    ASSIGN_OR_RETURN(v1::Job job, table_.Read(number));
    if (job.state() == v1::JOB_CANCELLED) return job;
    if (IsFinal(job.state())) {
      return absl::FailedPreconditionError(
          absl::StrCat(id,
                       " has ended, so there is nothing to cancel; to remove it and its files: "
                       "braid delete ",
                       id));
    }
    if (job.state() != v1::JOB_RUNNING) return Move(number, v1::JOB_CANCELLED, "canceled");
    if (table_.MarkCancelRequested(number)) {
      AppendEvent(number, v1::JOB_RUNNING, "cancel requested");
    }
    return table_.Read(number);
  });
}

absl::StatusOr<bool> JobStore::CancelRequested(const std::string& id) {
  ASSIGN_OR_RETURN(const int64_t number, JobNumber(id));
  return Guard([&]() -> absl::StatusOr<bool> {
    RETURN_IF_ERROR(table_.Read(number).status());
    return table_.CancelRequested(number);
  });
}

absl::StatusOr<v1::Job> JobStore::Resume(const std::string& id, int64_t max_unfinished) {
  return Transact([&]() -> absl::StatusOr<v1::Job> {
    ASSIGN_OR_RETURN(const int64_t number, JobNumber(id));
    ASSIGN_OR_RETURN(v1::Job job, table_.Read(number));
    if (job.state() == v1::JOB_RUNNING && table_.CancelRequested(number)) {
      return absl::FailedPreconditionError(
          absl::StrCat(id, " is being canceled; resume it when it has stopped"));
    }
    if (job.state() == v1::JOB_QUEUED || job.state() == v1::JOB_RUNNING) return job;
    if (job.state() == v1::JOB_SUCCEEDED) {
      return absl::FailedPreconditionError(
          absl::StrCat(id, " has finished, so there is nothing to resume; its dataset is ",
                       job.result().dataset_dir()));
    }
    RETURN_IF_ERROR(CheckQuota({.principal = job.principal(), .max_unfinished = max_unfinished}));
    table_.ForgetAttempts(number);
    return Move(number, v1::JOB_QUEUED, "resumed");
  });
}

absl::StatusOr<bool> JobStore::HasUnfinished() {
  return Guard([&]() -> absl::StatusOr<bool> {
    return !table_.InState(v1::JOB_QUEUED).empty() || !table_.InState(v1::JOB_RUNNING).empty();
  });
}

absl::StatusOr<std::optional<v1::Job>> JobStore::ClaimNext() {
  return Transact([&]() -> absl::StatusOr<std::optional<v1::Job>> {
    std::optional<int64_t> number = table_.NextInTurn(clock_());
    while (number && FailIfDamaged(*number)) number = table_.NextInTurn(clock_());
    if (!number) return std::nullopt;
    table_.CountStart(*number);
    ASSIGN_OR_RETURN(const v1::Job job, table_.Read(*number));
    const std::string message =
        job.attempts() == 1 ? "started" : absl::StrCat("started, attempt ", job.attempts());
    ASSIGN_OR_RETURN(v1::Job started, Move(*number, v1::JOB_RUNNING, message));
    return started;
  });
}

absl::Status JobStore::RequeueOrphans() {
  return Transact([&]() -> absl::Status {
    for (const int64_t number : table_.InState(v1::JOB_RUNNING)) {
      if (FailIfDamaged(number)) continue;
      ASSIGN_OR_RETURN(const v1::Job job, table_.Read(number));
      RETURN_IF_ERROR(FailAttempt(number, DiedDescription(job), 0));
    }
    return absl::OkStatus();
  });
}

// Fails a job that cannot be read; returns whether it did. Requires: called within a transaction.
bool JobStore::FailIfDamaged(int64_t number) {
  const std::string damage = table_.DamageOf(number);
  if (damage.empty()) return false;
  table_.Update(number, {.state = v1::JOB_FAILED, .error = damage, .finished = clock_()});
  AppendEvent(number, v1::JOB_FAILED, damage);
  return true;
}

// Requires: called within a transaction.
absl::Status JobStore::FailAttempt(int64_t number, const std::string& cause, double first_delay) {
  // Another attempt would drop the request to cancel, which may be newer than the worker's last
  // look.
  if (table_.CancelRequested(number)) return Move(number, v1::JOB_CANCELLED, "canceled").status();
  ASSIGN_OR_RETURN(const v1::Job job, table_.Read(number));
  const int failures = table_.CountFailure(number);
  const std::string failed = absl::StrCat("attempt ", job.attempts(), " failed: ", cause);
  if (failures >= kMaxFailures) {
    const std::string error =
        absl::StrCat(cause, "; giving up: ", failures,
                     " attempts without progress; once the cause is fixed, resume it "
                     "with 'braid resume ",
                     job.id(), "'");
    return Move(number, v1::JOB_FAILED, absl::StrCat("attempt ", job.attempts(), ": ", error),
                error)
        .status();
  }
  const double delay = RetryDelaySeconds(failures, first_delay);
  const std::string message =
      absl::StrCat(failed, "; queued again", delay > 0 ? absl::StrCat(" in ", delay, " s") : "");
  return Move(number, v1::JOB_QUEUED, message, failed, nullptr, clock_() + delay).status();
}

absl::Status JobStore::Retry(const std::string& id, const std::string& cause, double first_delay) {
  return Transact([&]() -> absl::Status {
    ASSIGN_OR_RETURN(const int64_t number, JobNumber(id));
    return FailAttempt(number, cause, first_delay);
  });
}

absl::Status JobStore::RecordProgress(const std::string& id, const v1::StageProgress& progress) {
  return Transact([&]() -> absl::Status {
    ASSIGN_OR_RETURN(const int64_t number, JobNumber(id));
    ASSIGN_OR_RETURN(const v1::Job job, table_.Read(number));
    table_.UpdateStage(job, number, progress);
    table_.MarkReached(number, PlaceOf(progress, job));
    AppendEvent(number, job.state(), "", &progress);
    return absl::OkStatus();
  });
}

absl::Status JobStore::Succeed(const std::string& id, const v1::JobResult& result) {
  return MoveById(id, v1::JOB_SUCCEEDED, "succeeded", "", &result);
}

absl::Status JobStore::Fail(const std::string& id, const std::string& error) {
  return MoveById(id, v1::JOB_FAILED, error, error);
}

absl::Status JobStore::MarkCancelled(const std::string& id) {
  return MoveById(id, v1::JOB_CANCELLED, "canceled");
}

absl::Status JobStore::Requeue(const std::string& id, const std::string& why) {
  return Transact([&]() -> absl::Status {
    ASSIGN_OR_RETURN(const int64_t number, JobNumber(id));
    // As in FailAttempt: queueing the job would drop the request.
    const bool cancel = table_.CancelRequested(number);
    return Move(number, cancel ? v1::JOB_CANCELLED : v1::JOB_QUEUED, cancel ? "canceled" : why)
        .status();
  });
}

uint64_t JobStore::changes() const {
  std::lock_guard lock(mutex_);
  return changes_;
}

void JobStore::WaitForChange(uint64_t seen, std::chrono::milliseconds timeout) const {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, timeout, [&] { return changes_ != seen; });
}

void JobStore::Wake() {
  std::lock_guard lock(mutex_);
  all_changed_at_ = changes_ + 1;
  Changed();
}

uint64_t JobStore::VersionOf(const std::string& id) {
  const absl::StatusOr<int64_t> number = JobNumber(id);
  if (!number.ok()) return 0;
  std::lock_guard lock(mutex_);
  try {
    if (const int64_t version = table_.DataVersion(); version != data_version_) {
      data_version_ = version;
      all_changed_at_ = ++changes_;
    }
  } catch (const SQLite::Exception&) {
    all_changed_at_ = ++changes_;  // the next query returns the error
  }
  const auto found = changed_at_.find(*number);
  return std::max(found == changed_at_.end() ? 0 : found->second, all_changed_at_);
}

void JobStore::SetListener(std::function<void()> listener) {
  std::lock_guard lock(mutex_);
  listener_ = std::move(listener);
}

}  // namespace braid
