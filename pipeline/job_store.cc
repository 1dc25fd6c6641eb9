#include "pipeline/job_store.h"

#include <SQLiteCpp/Database.h>
#include <SQLiteCpp/Statement.h>
#include <SQLiteCpp/Transaction.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
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
constexpr int kSchemaVersion = 1;
constexpr char kSchema[] = R"sql(
CREATE TABLE IF NOT EXISTS jobs(
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  request_id TEXT NOT NULL UNIQUE,
  spec BLOB NOT NULL,
  state INTEGER NOT NULL,
  error TEXT NOT NULL DEFAULT '',
  stages BLOB NOT NULL DEFAULT x'',
  result BLOB,
  cancel_requested INTEGER NOT NULL DEFAULT 0,
  created REAL NOT NULL,
  finished REAL NOT NULL DEFAULT 0);
CREATE INDEX IF NOT EXISTS jobs_by_state ON jobs(state, id);
CREATE TABLE IF NOT EXISTS events(
  job INTEGER NOT NULL REFERENCES jobs(id) ON DELETE CASCADE,
  number INTEGER NOT NULL,
  event BLOB NOT NULL,
  PRIMARY KEY(job, number)) WITHOUT ROWID;
)sql";
constexpr char kColumns[] =
    "SELECT id, spec, state, error, stages, result, created, finished,"
    " (SELECT COALESCE(MAX(number), 0) FROM events WHERE job = jobs.id) FROM jobs ";

// Equal messages give equal bytes, so that specs can be compared as blobs.
std::string Serialize(const google::protobuf::Message& message) {
  std::string bytes;
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    google::protobuf::io::CodedOutputStream coded(&stream);
    coded.SetSerializationDeterministic(true);
    message.SerializeToCodedStream(&coded);
  }
  return bytes;
}

void BindBlob(SQLite::Statement& statement, int index, const std::string& bytes) {
  statement.bind(index, static_cast<const void*>(bytes.data()), static_cast<int>(bytes.size()));
}

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

v1::Job FromRow(SQLite::Statement& row) {
  v1::Job job;
  job.ParseFromString(row.getColumn(4).getString());  // only `stages` is stored there
  job.set_id(JobId(row.getColumn(0).getInt64()));
  job.mutable_spec()->ParseFromString(row.getColumn(1).getString());
  job.set_state(static_cast<v1::JobState>(row.getColumn(2).getInt()));
  job.set_error(row.getColumn(3).getString());
  if (!row.getColumn(5).isNull()) {
    job.mutable_result()->ParseFromString(row.getColumn(5).getString());
  }
  job.set_created_at(row.getColumn(6).getDouble());
  job.set_finished_at(row.getColumn(7).getDouble());
  job.set_last_event(row.getColumn(8).getInt64());
  return job;
}

void UpdateStage(const v1::StageProgress& progress, v1::Job* job) {
  for (v1::StageProgress& stage : *job->mutable_stages()) {
    if (stage.stage() == progress.stage()) {
      stage = progress;
      return;
    }
  }
  *job->add_stages() = progress;
}

// A database made by a newer program may mean other things by the same names.
absl::Status CheckVersion(SQLite::Database& database, const std::filesystem::path& path) {
  const int version = database.execAndGet("PRAGMA user_version").getInt();
  if (version <= kSchemaVersion) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(path.string(), ": schema version ", version,
                                                    ", this program knows ", kSchemaVersion,
                                                    "; use a newer braid or another --home"));
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
    : path_(std::move(path)), clock_(std::move(clock)), database_(std::move(database)) {}

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
    database->exec(kSchema);
    database->exec(absl::StrCat("PRAGMA user_version=", kSchemaVersion));
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

absl::StatusOr<v1::Job> JobStore::Read(int64_t number) {
  SQLite::Statement query(*database_, absl::StrCat(kColumns, "WHERE id = ?"));
  query.bind(1, number);
  if (!query.executeStep()) return UnknownJob(JobId(number));
  return FromRow(query);
}

absl::Status JobStore::AppendEvent(int64_t number, v1::JobState state, const std::string& message,
                                   const v1::StageProgress* progress) {
  SQLite::Statement last(*database_, "SELECT COALESCE(MAX(number), 0) FROM events WHERE job = ?");
  last.bind(1, number);
  last.executeStep();
  v1::JobEvent event;
  event.set_number(last.getColumn(0).getInt64() + 1);
  event.set_time(clock_());
  event.set_state(state);
  event.set_message(message);
  if (progress != nullptr) *event.mutable_progress() = *progress;
  SQLite::Statement insert(*database_, "INSERT INTO events(job, number, event) VALUES(?, ?, ?)");
  insert.bind(1, number);
  insert.bind(2, event.number());
  BindBlob(insert, 3, Serialize(event));
  insert.exec();
  return absl::OkStatus();
}

absl::StatusOr<v1::Job> JobStore::Move(int64_t number, v1::JobState to, const std::string& message,
                                       const std::string& error, const v1::JobResult* result) {
  ASSIGN_OR_RETURN(const v1::Job job, Read(number));
  if (!IsLegalTransition(job.state(), to)) {
    return absl::FailedPreconditionError(
        absl::StrCat(job.id(), " is ", v1::JobState_Name(job.state()), " and cannot become ",
                     v1::JobState_Name(to)));
  }
  // A new attempt reports its stages anew; what was committed shows as reused.
  const bool restarts = to == v1::JOB_QUEUED;
  SQLite::Statement update(*database_,
                           "UPDATE jobs SET state = ?, error = ?, result = ?, finished = ?,"
                           " stages = CASE WHEN ? THEN x'' ELSE stages END,"
                           " cancel_requested = 0 WHERE id = ?");
  update.bind(1, static_cast<int>(to));
  update.bind(2, error);
  if (result != nullptr) BindBlob(update, 3, Serialize(*result));
  update.bind(4, IsFinal(to) ? clock_() : 0.0);
  update.bind(5, restarts ? 1 : 0);
  update.bind(6, number);
  update.exec();
  RETURN_IF_ERROR(AppendEvent(number, to, message));
  return Read(number);
}

absl::Status JobStore::MoveById(const std::string& id, v1::JobState to, const std::string& message,
                                const std::string& error, const v1::JobResult* result) {
  return Transact([&]() -> absl::Status {
    ASSIGN_OR_RETURN(const int64_t number, JobNumber(id));
    return Move(number, to, message, error, result).status();
  });
}

absl::StatusOr<std::optional<v1::Job>> JobStore::FindRequest(const v1::CorpusSpec& spec,
                                                             const std::string& request_id) {
  SQLite::Statement query(*database_, absl::StrCat(kColumns, "WHERE request_id = ?"));
  query.bind(1, request_id);
  if (!query.executeStep()) return std::nullopt;
  v1::Job job = FromRow(query);
  if (Serialize(job.spec()) != Serialize(spec)) {
    return absl::AlreadyExistsError(absl::StrCat("request id \"", request_id, "\" is ", job.id(),
                                                 " with another spec; choose a new request id"));
  }
  return job;
}

absl::StatusOr<v1::Job> JobStore::Submit(const v1::CorpusSpec& spec,
                                         const std::string& request_id) {
  return Transact([&]() -> absl::StatusOr<v1::Job> {
    ASSIGN_OR_RETURN(std::optional<v1::Job> known, FindRequest(spec, request_id));
    if (known.has_value()) return *std::move(known);
    SQLite::Statement insert(
        *database_, "INSERT INTO jobs(request_id, spec, state, created) VALUES(?, ?, ?, ?)");
    insert.bind(1, request_id);
    BindBlob(insert, 2, Serialize(spec));
    insert.bind(3, static_cast<int>(v1::JOB_QUEUED));
    insert.bind(4, clock_());
    insert.exec();
    const int64_t number = database_->getLastInsertRowid();
    RETURN_IF_ERROR(AppendEvent(number, v1::JOB_QUEUED, "submitted"));
    return Read(number);
  });
}

absl::StatusOr<v1::Job> JobStore::Get(const std::string& id) {
  ASSIGN_OR_RETURN(const int64_t number, JobNumber(id));
  return Guard([&]() -> absl::StatusOr<v1::Job> { return Read(number); });
}

absl::StatusOr<std::vector<v1::Job>> JobStore::List() {
  return Guard([&]() -> absl::StatusOr<std::vector<v1::Job>> {
    std::vector<v1::Job> jobs;
    SQLite::Statement query(*database_, absl::StrCat(kColumns, "ORDER BY id DESC"));
    while (query.executeStep()) jobs.push_back(FromRow(query));
    return jobs;
  });
}

absl::StatusOr<std::vector<v1::JobEvent>> JobStore::EventsAfter(const std::string& id,
                                                                int64_t after) {
  ASSIGN_OR_RETURN(const int64_t number, JobNumber(id));
  return Guard([&]() -> absl::StatusOr<std::vector<v1::JobEvent>> {
    RETURN_IF_ERROR(Read(number).status());
    SQLite::Statement query(*database_,
                            "SELECT event FROM events WHERE job = ? AND number > ?"
                            " ORDER BY number LIMIT 1000");
    query.bind(1, number);
    query.bind(2, after);
    std::vector<v1::JobEvent> events;
    while (query.executeStep()) {
      events.emplace_back().ParseFromString(query.getColumn(0).getString());
    }
    return events;
  });
}

absl::StatusOr<v1::Job> JobStore::RequestCancel(const std::string& id) {
  return Transact([&]() -> absl::StatusOr<v1::Job> {
    ASSIGN_OR_RETURN(const int64_t number, JobNumber(id));
    ASSIGN_OR_RETURN(v1::Job job, Read(number));
    if (job.state() == v1::JOB_CANCELLED) return job;
    if (job.state() != v1::JOB_RUNNING) return Move(number, v1::JOB_CANCELLED, "cancelled");
    SQLite::Statement mark(
        *database_, "UPDATE jobs SET cancel_requested = 1 WHERE id = ? AND cancel_requested = 0");
    mark.bind(1, number);
    if (mark.exec() > 0) {
      RETURN_IF_ERROR(AppendEvent(number, v1::JOB_RUNNING, "cancel requested"));
    }
    return Read(number);
  });
}

absl::StatusOr<bool> JobStore::CancelRequested(const std::string& id) {
  ASSIGN_OR_RETURN(const int64_t number, JobNumber(id));
  return Guard([&]() -> absl::StatusOr<bool> {
    SQLite::Statement query(*database_, "SELECT cancel_requested FROM jobs WHERE id = ?");
    query.bind(1, number);
    if (!query.executeStep()) return UnknownJob(id);
    return query.getColumn(0).getInt() != 0;
  });
}

absl::StatusOr<v1::Job> JobStore::Resume(const std::string& id) {
  return Transact([&]() -> absl::StatusOr<v1::Job> {
    ASSIGN_OR_RETURN(const int64_t number, JobNumber(id));
    ASSIGN_OR_RETURN(v1::Job job, Read(number));
    if (job.state() == v1::JOB_QUEUED || job.state() == v1::JOB_RUNNING) return job;
    return Move(number, v1::JOB_QUEUED, "resumed");
  });
}

absl::StatusOr<bool> JobStore::HasUnfinished() {
  return Guard([&]() -> absl::StatusOr<bool> {
    SQLite::Statement query(*database_, "SELECT 1 FROM jobs WHERE state IN (?, ?) LIMIT 1");
    query.bind(1, static_cast<int>(v1::JOB_QUEUED));
    query.bind(2, static_cast<int>(v1::JOB_RUNNING));
    return query.executeStep();
  });
}

absl::StatusOr<std::optional<v1::Job>> JobStore::ClaimNext() {
  return Transact([&]() -> absl::StatusOr<std::optional<v1::Job>> {
    SQLite::Statement query(*database_, "SELECT id FROM jobs WHERE state = ? ORDER BY id LIMIT 1");
    query.bind(1, static_cast<int>(v1::JOB_QUEUED));
    if (!query.executeStep()) return std::nullopt;
    const int64_t number = query.getColumn(0).getInt64();
    query.reset();
    ASSIGN_OR_RETURN(v1::Job job, Move(number, v1::JOB_RUNNING, "started"));
    return job;
  });
}

absl::Status JobStore::RequeueOrphans() {
  return Transact([&]() -> absl::Status {
    std::vector<std::pair<int64_t, bool>> orphans;
    SQLite::Statement query(*database_, "SELECT id, cancel_requested FROM jobs WHERE state = ?");
    query.bind(1, static_cast<int>(v1::JOB_RUNNING));
    while (query.executeStep()) {
      orphans.emplace_back(query.getColumn(0).getInt64(), query.getColumn(1).getInt() != 0);
    }
    for (const auto& [number, cancel] : orphans) {
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
    ASSIGN_OR_RETURN(v1::Job job, Read(number));
    v1::Job stages;
    stages.mutable_stages()->Swap(job.mutable_stages());
    UpdateStage(progress, &stages);
    SQLite::Statement update(*database_, "UPDATE jobs SET stages = ? WHERE id = ?");
    BindBlob(update, 1, Serialize(stages));
    update.bind(2, number);
    update.exec();
    return AppendEvent(number, job.state(), "", &progress);
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
