#include "pipeline/job_store.h"

#include <SQLiteCpp/Database.h>
#include <SQLiteCpp/Transaction.h>
#include <sqlite3.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "formats/atomic_file.h"
#include "formats/status_macros.h"
#include "pipeline/job_id.h"
#include "pipeline/job_state.h"

namespace braid {
namespace {

constexpr int kBusyTimeoutMs = 10000;
constexpr int64_t kEventsPerCall = 1000;

absl::Status FromSqlite(const SQLite::Exception& error, const std::filesystem::path& path) {
  const std::string message = absl::StrCat(path.string(), ": ", error.what());
  switch (error.getErrorCode()) {
    case SQLITE_FULL:
      return absl::ResourceExhaustedError(absl::StrCat(message, "; free some disk space"));
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return absl::UnavailableError(absl::StrCat(message, "; another process holds it, retry"));
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return absl::DataLossError(absl::StrCat(message, "; move the file away to start afresh"));
    case SQLITE_CANTOPEN:
    case SQLITE_READONLY:
      return absl::PermissionDeniedError(absl::StrCat(message, "; is the folder writable?"));
    default:
      return absl::InternalError(message);
  }
}

// A database made by a newer program may mean other things by the same names.
absl::Status CheckVersion(SQLite::Database& database, const std::filesystem::path& path) {
  const int version = JobTable::SchemaVersion(database);
  if (version <= JobTable::kSchemaVersion) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(path.string(), ": schema version ", version, ", this program knows ",
                   JobTable::kSchemaVersion, "; use a newer braid or another --home"));
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
  RETURN_IF_ERROR(MakeDirectories(home));
  const std::filesystem::path path = home / "jobs.sqlite";
  try {
    auto database = std::make_unique<SQLite::Database>(
        path.string(), SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE, kBusyTimeoutMs);
    database->exec("PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA foreign_keys=ON");
    RETURN_IF_ERROR(CheckVersion(*database, path));
    SQLite::Transaction transaction(*database, SQLite::TransactionBehavior::IMMEDIATE);
    JobTable::CreateTables(*database);
    transaction.commit();
    return std::unique_ptr<JobStore>(new JobStore(path, std::move(database), std::move(clock)));
  } catch (const SQLite::Exception& error) {
    return FromSqlite(error, path);
  }
}

template <class Body>
auto JobStore::Guard(Body body) -> decltype(body()) {
  std::lock_guard lock(mutex_);
  try {
    return body();
  } catch (const SQLite::Exception& error) {
    return FromSqlite(error, path_);
  }
}

// Runs `body` as one transaction, committed when it returns OK.
template <class Body>
auto JobStore::Transact(Body body) -> decltype(body()) {
  return Guard([&]() -> decltype(body()) {
    SQLite::Transaction transaction(*database_, SQLite::TransactionBehavior::IMMEDIATE);
    auto result = body();
    if (result.ok()) {
      transaction.commit();
      ++changes_;
      changed_.notify_all();
    }
    return result;
  });
}

void JobStore::AppendEvent(int64_t number, v1::JobState state, const std::string& message,
                           const v1::StageProgress* progress) {
  v1::JobEvent event;
  event.set_time(clock_());
  event.set_state(state);
  event.set_message(message);
  if (progress != nullptr) *event.mutable_progress() = *progress;
  table_.AppendEvent(number, std::move(event));
}

absl::StatusOr<v1::Job> JobStore::Move(int64_t number, v1::JobState to, const std::string& message,
                                       const std::string& error, const v1::JobResult* result) {
  ASSIGN_OR_RETURN(const v1::Job job, table_.Read(number));
  if (!IsLegalTransition(job.state(), to)) {
    return absl::FailedPreconditionError(
        absl::StrCat(job.id(), " is ", v1::JobState_Name(job.state()), " and cannot become ",
                     v1::JobState_Name(to)));
  }
  // A new attempt reports its stages anew; what was committed shows as reused.
  table_.Update(number, {.state = to,
                         .error = error,
                         .result = result,
                         .finished = IsFinal(to) ? clock_() : 0.0,
                         .clear_stages = to == v1::JOB_QUEUED});
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

absl::StatusOr<v1::Job> JobStore::Submit(const v1::CorpusSpec& spec,
                                         const std::string& request_id) {
  return Transact([&]() -> absl::StatusOr<v1::Job> {
    if (std::optional<v1::Job> known = table_.OfRequest(request_id)) {
      if (SameSpec(known->spec(), spec)) return *std::move(known);
      return absl::AlreadyExistsError(absl::StrCat("request id \"", request_id, "\" is ",
                                                   known->id(),
                                                   " with another spec; choose a new request id"));
    }
    const int64_t number = table_.Insert(spec, request_id, clock_());
    AppendEvent(number, v1::JOB_QUEUED, "submitted");
    return table_.Read(number);
  });
}

absl::StatusOr<bool> JobStore::Knows(const std::string& request_id) {
  return Guard([&]() -> absl::StatusOr<bool> { return table_.OfRequest(request_id).has_value(); });
}

absl::StatusOr<v1::Job> JobStore::Get(const std::string& id) {
  ASSIGN_OR_RETURN(const int64_t number, JobNumber(id));
  return Guard([&]() -> absl::StatusOr<v1::Job> { return table_.Read(number); });
}

absl::StatusOr<std::vector<v1::Job>> JobStore::List() {
  return Guard([&]() -> absl::StatusOr<std::vector<v1::Job>> { return table_.All(); });
}

absl::StatusOr<std::vector<v1::JobEvent>> JobStore::EventsAfter(const std::string& id,
                                                                int64_t after) {
  ASSIGN_OR_RETURN(const int64_t number, JobNumber(id));
  return Guard([&]() -> absl::StatusOr<std::vector<v1::JobEvent>> {
    RETURN_IF_ERROR(table_.Read(number).status());
    return table_.EventsAfter(number, after, kEventsPerCall);
  });
}

absl::StatusOr<v1::Job> JobStore::RequestCancel(const std::string& id) {
  return Transact([&]() -> absl::StatusOr<v1::Job> {
    ASSIGN_OR_RETURN(const int64_t number, JobNumber(id));
    ASSIGN_OR_RETURN(v1::Job job, table_.Read(number));
    if (job.state() == v1::JOB_CANCELLED) return job;
    if (job.state() != v1::JOB_RUNNING) return Move(number, v1::JOB_CANCELLED, "cancelled");
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

absl::StatusOr<v1::Job> JobStore::Resume(const std::string& id) {
  return Transact([&]() -> absl::StatusOr<v1::Job> {
    ASSIGN_OR_RETURN(const int64_t number, JobNumber(id));
    ASSIGN_OR_RETURN(v1::Job job, table_.Read(number));
    if (job.state() == v1::JOB_QUEUED || job.state() == v1::JOB_RUNNING) return job;
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
    const std::vector<int64_t> queued = table_.InState(v1::JOB_QUEUED);
    if (queued.empty()) return std::nullopt;
    ASSIGN_OR_RETURN(v1::Job job, Move(queued.front(), v1::JOB_RUNNING, "started"));
    return job;
  });
}

absl::Status JobStore::RequeueOrphans() {
  return Transact([&]() -> absl::Status {
    for (const int64_t number : table_.InState(v1::JOB_RUNNING)) {
      const bool cancel = table_.CancelRequested(number);
      const v1::JobState to = cancel ? v1::JOB_CANCELLED : v1::JOB_QUEUED;
      const char* why = cancel ? "cancelled" : "its process ended; queued again";
      RETURN_IF_ERROR(Move(number, to, why).status());
    }
    return absl::OkStatus();
  });
}

absl::Status JobStore::RecordProgress(const std::string& id, const v1::StageProgress& progress) {
  return Transact([&]() -> absl::Status {
    ASSIGN_OR_RETURN(const int64_t number, JobNumber(id));
    ASSIGN_OR_RETURN(const v1::Job job, table_.Read(number));
    table_.UpdateStage(job, number, progress);
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
  return MoveById(id, v1::JOB_CANCELLED, "cancelled");
}

absl::Status JobStore::Requeue(const std::string& id, const std::string& why) {
  return MoveById(id, v1::JOB_QUEUED, why);
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
  ++changes_;
  changed_.notify_all();
}

}  // namespace braid
