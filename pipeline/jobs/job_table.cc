#include "pipeline/jobs/job_table.h"

#include <SQLiteCpp/Database.h>
#include <SQLiteCpp/Statement.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "pipeline/jobs/job_id.h"

namespace braid {
namespace {

// The statements that upgrade a database from each version to the next, beginning with an empty
// one.
constexpr const char* kVersions[JobTable::kSchemaVersion] = {R"sql(
CREATE TABLE jobs(
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
CREATE INDEX jobs_by_state ON jobs(state, id);
CREATE TABLE events(
  job INTEGER NOT NULL REFERENCES jobs(id) ON DELETE CASCADE,
  number INTEGER NOT NULL,
  event BLOB NOT NULL,
  PRIMARY KEY(job, number)) WITHOUT ROWID;
)sql",
                                                             R"sql(
ALTER TABLE jobs ADD COLUMN principal TEXT NOT NULL DEFAULT 'local';
ALTER TABLE jobs ADD COLUMN attempts INTEGER NOT NULL DEFAULT 0;
ALTER TABLE jobs ADD COLUMN failures INTEGER NOT NULL DEFAULT 0;
ALTER TABLE jobs ADD COLUMN reached INTEGER NOT NULL DEFAULT 0;
ALTER TABLE jobs ADD COLUMN not_before REAL NOT NULL DEFAULT 0;
ALTER TABLE jobs ADD COLUMN turn INTEGER NOT NULL DEFAULT 0;
CREATE INDEX jobs_by_turn ON jobs(principal, turn);
)sql"};
constexpr char kColumns[] =
    "SELECT id, spec, state, error, stages, result, created, finished, principal, attempts,"
    " (SELECT COALESCE(MAX(number), 0) FROM events WHERE job = jobs.id) FROM jobs ";

// Serializes a message so that equal messages give equal bytes.
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
  job.set_principal(row.getColumn(8).getString());
  job.set_attempts(row.getColumn(9).getInt());
  job.set_last_event(row.getColumn(10).getInt64());
  return job;
}

void ReplaceStage(const v1::StageProgress& progress, v1::Job* job) {
  for (v1::StageProgress& stage : *job->mutable_stages()) {
    if (stage.stage() == progress.stage()) {
      stage = progress;
      return;
    }
  }
  *job->add_stages() = progress;
}

}  // namespace

int JobTable::SchemaVersion(SQLite::Database& database) {
  return database.execAndGet("PRAGMA user_version").getInt();
}

void JobTable::CreateTables(SQLite::Database& database) {
  for (int version = SchemaVersion(database); version < kSchemaVersion; ++version) {
    database.exec(kVersions[version]);
  }
  database.exec(absl::StrCat("PRAGMA user_version=", kSchemaVersion));
}

int64_t JobTable::Insert(const v1::CorpusSpec& spec, const std::string& request_id,
                         const std::string& principal, double created) {
  SQLite::Statement insert(
      database_,
      "INSERT INTO jobs(request_id, spec, state, created, principal) VALUES(?, ?, ?, ?, ?)");
  insert.bind(1, request_id);
  BindBlob(insert, 2, Serialize(spec));
  insert.bind(3, static_cast<int>(v1::JOB_QUEUED));
  insert.bind(4, created);
  insert.bind(5, principal);
  insert.exec();
  return database_.getLastInsertRowid();
}

absl::StatusOr<v1::Job> JobTable::Read(int64_t number) {
  SQLite::Statement query(database_, absl::StrCat(kColumns, "WHERE id = ?"));
  query.bind(1, number);
  if (!query.executeStep()) return UnknownJob(JobId(number));
  return FromRow(query);
}

std::optional<v1::Job> JobTable::OfRequest(const std::string& request_id) {
  SQLite::Statement query(database_, absl::StrCat(kColumns, "WHERE request_id = ?"));
  query.bind(1, request_id);
  if (!query.executeStep()) return std::nullopt;
  return FromRow(query);
}

std::vector<v1::Job> JobTable::Before(int64_t before, int64_t limit) {
  std::vector<v1::Job> jobs;
  SQLite::Statement query(database_,
                          absl::StrCat(kColumns, "WHERE id < ? ORDER BY id DESC LIMIT ?"));
  query.bind(1, before);
  query.bind(2, limit);
  while (query.executeStep()) jobs.push_back(FromRow(query));
  return jobs;
}

std::vector<int64_t> JobTable::InState(v1::JobState state) {
  std::vector<int64_t> numbers;
  SQLite::Statement query(database_, "SELECT id FROM jobs WHERE state = ? ORDER BY id");
  query.bind(1, static_cast<int>(state));
  while (query.executeStep()) numbers.push_back(query.getColumn(0).getInt64());
  return numbers;
}

int64_t JobTable::NumUnfinished(const std::string& principal) {
  SQLite::Statement query(database_,
                          "SELECT COUNT(*) FROM jobs WHERE state IN (?, ?) AND principal = ?");
  query.bind(1, static_cast<int>(v1::JOB_QUEUED));
  query.bind(2, static_cast<int>(v1::JOB_RUNNING));
  query.bind(3, principal);
  query.executeStep();
  return query.getColumn(0).getInt64();
}

std::optional<int64_t> JobTable::NextInTurn(double now) {
  SQLite::Statement query(database_,
                          "SELECT id FROM jobs WHERE state = ? AND not_before <= ? ORDER BY"
                          " (SELECT MAX(turn) FROM jobs AS own WHERE own.principal ="
                          " jobs.principal), id LIMIT 1");
  query.bind(1, static_cast<int>(v1::JOB_QUEUED));
  query.bind(2, now);
  if (!query.executeStep()) return std::nullopt;
  return query.getColumn(0).getInt64();
}

void JobTable::CountStart(int64_t number) {
  SQLite::Statement update(database_,
                           "UPDATE jobs SET attempts = attempts + 1,"
                           " turn = (SELECT MAX(turn) + 1 FROM jobs) WHERE id = ?");
  update.bind(1, number);
  update.exec();
}

int JobTable::CountFailure(int64_t number) {
  SQLite::Statement update(database_,
                           "UPDATE jobs SET failures = failures + 1 WHERE id = ?"
                           " RETURNING failures");
  update.bind(1, number);
  update.executeStep();
  const int failures = update.getColumn(0).getInt();
  // SQLite applies the update only when the statement has run to its end.
  while (update.executeStep()) {
  }
  return failures;
}

void JobTable::MarkReached(int64_t number, int64_t place) {
  SQLite::Statement update(
      database_, "UPDATE jobs SET reached = ?, failures = 0 WHERE id = ? AND reached < ?");
  update.bind(1, place);
  update.bind(2, number);
  update.bind(3, place);
  update.exec();
}

void JobTable::ForgetAttempts(int64_t number) {
  SQLite::Statement update(database_,
                           "UPDATE jobs SET attempts = 0, failures = 0, reached = 0 WHERE id = ?");
  update.bind(1, number);
  update.exec();
}

void JobTable::Update(int64_t number, const StateChange& change) {
  SQLite::Statement update(database_,
                           "UPDATE jobs SET state = ?, error = ?, result = ?, finished = ?,"
                           " stages = CASE WHEN ? THEN x'' ELSE stages END,"
                           " cancel_requested = 0, not_before = ? WHERE id = ?");
  update.bind(1, static_cast<int>(change.state));
  update.bind(2, change.error);
  if (change.result != nullptr) BindBlob(update, 3, Serialize(*change.result));
  update.bind(4, change.finished);
  update.bind(5, change.clear_stages ? 1 : 0);
  update.bind(6, change.not_before);
  update.bind(7, number);
  update.exec();
}

void JobTable::UpdateStage(const v1::Job& job, int64_t number, const v1::StageProgress& progress) {
  v1::Job stages;
  *stages.mutable_stages() = job.stages();
  ReplaceStage(progress, &stages);
  SQLite::Statement update(database_, "UPDATE jobs SET stages = ? WHERE id = ?");
  BindBlob(update, 1, Serialize(stages));
  update.bind(2, number);
  update.exec();
}

bool JobTable::MarkCancelRequested(int64_t number) {
  SQLite::Statement mark(
      database_, "UPDATE jobs SET cancel_requested = 1 WHERE id = ? AND cancel_requested = 0");
  mark.bind(1, number);
  return mark.exec() > 0;
}

bool JobTable::CancelRequested(int64_t number) {
  SQLite::Statement query(database_, "SELECT cancel_requested FROM jobs WHERE id = ?");
  query.bind(1, number);
  return query.executeStep() && query.getColumn(0).getInt() != 0;
}

void JobTable::AppendEvent(int64_t number, v1::JobEvent event) {
  SQLite::Statement last(database_, "SELECT COALESCE(MAX(number), 0) FROM events WHERE job = ?");
  last.bind(1, number);
  last.executeStep();
  event.set_number(last.getColumn(0).getInt64() + 1);
  SQLite::Statement insert(database_, "INSERT INTO events(job, number, event) VALUES(?, ?, ?)");
  insert.bind(1, number);
  insert.bind(2, event.number());
  BindBlob(insert, 3, Serialize(event));
  insert.exec();
}

std::vector<v1::JobEvent> JobTable::EventsAfter(int64_t number, int64_t after, int64_t limit,
                                                int64_t max_bytes) {
  SQLite::Statement query(database_,
                          "SELECT event FROM events WHERE job = ? AND number > ?"
                          " ORDER BY number LIMIT ?");
  query.bind(1, number);
  query.bind(2, after);
  query.bind(3, limit);
  std::vector<v1::JobEvent> events;
  for (int64_t bytes = 0; bytes < max_bytes && query.executeStep();) {
    const std::string event = query.getColumn(0).getString();
    bytes += std::ssize(event);
    events.emplace_back().ParseFromString(event);
  }
  return events;
}

int64_t JobTable::DataVersion() { return database_.execAndGet("PRAGMA data_version").getInt64(); }

bool SameSpec(const v1::CorpusSpec& a, const v1::CorpusSpec& b) {
  return Serialize(a) == Serialize(b);
}

}  // namespace braid
